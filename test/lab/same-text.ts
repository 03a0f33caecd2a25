import assert from 'node:assert/strict';

/** Names the first line that differs, and what to do, instead of two pages. */
export function assertSameText(actual: string, expected: string, remedy: string): void {
  if (actual === expected) return;
  const [own, other] = [actual, expected].map((text) => text.split('\n'));
  const first = own?.findIndex((line, index) => line !== other?.[index]) ?? 0;
  const [found, wanted] = [own, other].map((lines) => JSON.stringify(lines?.at(first) ?? 'the end'));
  assert.fail(`${found} instead of ${wanted} in line ${first + 1}; ${remedy}`);
}
