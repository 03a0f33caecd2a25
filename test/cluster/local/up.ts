// Brings up a cluster that stays: `up.ts [DIRECTORY [IMAGE=ARCHIVE]...]`, with PROXY_MODE and FAMILIES in the environment.
import { resolve } from 'node:path';
import { buildPrograms } from './build.ts';
import { leaveCluster } from './cluster.ts';
import { type Image, PLAYGROUND } from './options.ts';
import { parametersFrom } from './parameters.ts';

const [, , directory = PLAYGROUND] = process.argv;
const start = performance.now();
try {
  await buildPrograms(console.error);
  const images = process.argv.slice(3).map(imageFrom);
  const env = await leaveCluster({ directory: resolve(directory), ...parametersFrom(process.env), images });
  for (const [name, value] of Object.entries(env)) console.log(`export ${name}=${value}`);
  console.error(`up after ${((performance.now() - start) / 1000).toFixed(1)} s`);
} catch (error) {
  console.error(`cluster-up: ${(error as Error).message}`);
  process.exitCode = 1;
}

function imageFrom(text: string): Image {
  const [name = '', archive = ''] = text.split('=');
  return { name, archive: resolve(archive) };
}
