import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ROOT } from '../../image/make.ts';

/** Puts bin/ip-masq-agent of these sources into a directory, as `make build` does in a clone. */
export async function putAgentCommand(dir: string): Promise<void> {
  const file = join(dir, 'bin/ip-masq-agent');
  await mkdir(join(dir, 'bin'));
  await writeFile(
    file,
    `#!/bin/sh\nexec ${process.execPath} ${join(ROOT, 'cmd/ip-masq-agent/main.ts')} "$@"\n`,
  );
  await chmod(file, 0o755);
}
