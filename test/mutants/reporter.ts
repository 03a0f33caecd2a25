import type { TestEvent } from 'node:test/reporters';

/** Reports to Stryker what fails: its parser does not understand what Node.js prints for some names of tests. */
// biome-ignore lint/style/noDefaultExport: Node.js imports a reporter as the default.
export default async function* reporter(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  let count = 0;
  yield 'TAP version 13\n';
  for await (const { type } of events) if (type === 'test:fail') yield `not ok ${++count} - fails\n`;
  yield `ok ${++count} - ends\n1..${count}\n`;
}
