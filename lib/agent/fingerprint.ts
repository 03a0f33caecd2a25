import { createHash } from 'node:crypto';

/** Equal for equal values, short whatever their size. */
export function fingerprint(value: unknown): string {
  const text = JSON.stringify(value, (_, item: unknown) => (typeof item === 'bigint' ? String(item) : item));
  return createHash('sha256').update(text).digest('base64');
}
