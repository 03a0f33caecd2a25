import { versionText } from './build-info.ts';
import { EXIT } from './exit.ts';
import { print } from './print.ts';

export async function version(): Promise<number> {
  print(`${versionText()}\n`);
  return EXIT.ok;
}
