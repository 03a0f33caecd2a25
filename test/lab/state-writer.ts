import { writeLastValid } from '../../lib/state/write-state.ts';
import { configFilesOf, lastValid } from './state-texts.ts';

// Writes one of two states again and again until it is killed. Usage: state-writer.ts DIR
const [dir = ''] = process.argv.slice(2);
for (let time = 0; ; time += 1) {
  await writeLastValid(dir, 'node', lastValid(configFilesOf(time % 2 === 0 ? 'a' : 'b')));
  if (time === 0) process.stdout.write('written\n');
}
