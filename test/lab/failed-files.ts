import type { TestEvent } from 'node:test/reporters';

/** Tells the test files in which something has failed, one in a line. */
// biome-ignore lint/style/noDefaultExport: Node.js imports a reporter as the default.
export default async function* failedFiles(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const files = new Set<string>();
  // A test may be defined in another file than the one that was run.
  for await (const { type, data } of events)
    if (type === 'test:fail')
      files.add((data as { readonly entryFile?: string }).entryFile ?? data.file ?? '');
  for (const file of files) if (file !== '') yield `${file}\n`;
}
