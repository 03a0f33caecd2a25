/** Whether a version such as `1.8.9` comes before another, given as its numbers. */
export function isOlder(version: string, than: readonly number[]): boolean {
  const parts = version.split('.').map(Number);
  const index = than.findIndex((part, position) => part !== (parts[position] ?? 0));
  return index !== -1 && (parts[index] ?? 0) < (than[index] ?? 0);
}
