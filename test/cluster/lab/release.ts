import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { ROOT } from '../../image/make.ts';
import { startWorkshop } from '../../image/support.ts';
import { CLUSTER_BIN, PROGRAMS } from '../local/options.ts';
import { IMAGE_INPUTS, stateOf } from './image.ts';

/** A release, and what its registry holds. */
export interface Release {
  /** The file that people apply. */
  readonly manifest: string;
  /** The package of the Helm chart, and its version. */
  readonly chart: string;
  readonly version: string;
  /** The image in the manifest and the chart: in a registry on the loopback link, by its digest. */
  readonly image: string;
  readonly digest: string;
  /** The directory of that registry. */
  readonly pushed: string;
}

const RELEASES = join(CLUSTER_BIN, 'releases');
/** The files of a release that a cluster needs. */
const MANIFEST = 'install.yaml';
const CHART = 'ip-masq-agent.tgz';

/** Makes a release, once for each state of the files that it is made of. Returns its directory. */
export async function makeRelease(): Promise<string> {
  const version = `v0.0.0-${await stateOf([...IMAGE_INPUTS, 'examples'])}`;
  const directory = join(RELEASES, version);
  if (existsSync(directory)) return directory;
  const fresh = `${directory}.new`;
  await rm(fresh, { recursive: true, force: true });
  await mkdir(fresh, { recursive: true });
  await pushTo(placesIn(fresh).pushed, version);
  const files = join(ROOT, 'bin/release', version);
  await rename(join(files, MANIFEST), placesIn(fresh).manifest);
  await rename(join(files, `ip-masq-agent-${version.slice(1)}.tgz`), placesIn(fresh).chart);
  await rm(files, { recursive: true });
  await rename(fresh, directory);
  return directory;
}

async function pushTo(directory: string, version: string): Promise<void> {
  // kustomize of the lockfile is for one architecture only; kubectl has another.
  await using workshop = await startWorkshop(version, directory, `${process.env['PATH']}:${PROGRAMS}`);
  await workshop.make('022', 'release');
}

/** The release in a directory of `makeRelease`. */
export async function readRelease(directory: string): Promise<Release> {
  const places = placesIn(directory);
  const text = await readFile(places.manifest, 'utf8');
  const [, image, digest] = /^ +image: (\S+@(sha256:[0-9a-f]{64}))$/m.exec(text) ?? [];
  if (image === undefined || digest === undefined) throw new Error(`${places.manifest} has no image`);
  // The directory has the name of the version.
  return { ...places, version: basename(directory).slice(1), image, digest };
}

function placesIn(directory: string): Pick<Release, 'chart' | 'manifest' | 'pushed'> {
  return {
    manifest: join(directory, MANIFEST),
    chart: join(directory, CHART),
    pushed: join(directory, 'registry'),
  };
}
