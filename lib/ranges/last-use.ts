import { type Prefix, parsePrefix } from '../cidr/prefix.ts';

/** Ranges that were used last at one time. */
export interface LastUse {
  /** In milliseconds since the epoch; `now` for ranges that are in use. */
  readonly at: number | 'now';
  readonly prefixes: readonly Prefix[];
}

/** Reads the text of `formatLastUse`; undefined if it is not such a text. */
export function parseLastUse(text: string): readonly LastUse[] | undefined {
  try {
    return Object.entries<readonly unknown[]>(JSON.parse(text)).map(([time, cidrs]) => {
      // Throws for what is no time.
      const at = time === 'now' ? time : Date.parse(new Date(time).toISOString());
      return { at, prefixes: cidrs.map(prefixOf) };
    });
  } catch {
    return undefined;
  }
}

function prefixOf(cidr: unknown): Prefix {
  const parsed = parsePrefix(String(cidr));
  if ('prefix' in parsed) return parsed.prefix;
  throw new Error(parsed.error.message);
}

/** JSON: the ranges by the time when each was used last, in whole seconds. */
export function formatLastUse(uses: readonly LastUse[]): string {
  const byTime = Map.groupBy(uses, ({ at }) => timeText(at));
  const texts = (of: readonly LastUse[]) => of.flatMap(({ prefixes }) => prefixes.map(({ text }) => text));
  return JSON.stringify(Object.fromEntries([...byTime].map(([time, of]) => [time, texts(of)])));
}

/** `now`, or an instant such as `2026-11-29T05:00:00Z`. */
export function timeText(at: LastUse['at']): string {
  return at === 'now' ? at : `${new Date(at).toISOString().slice(0, 19)}Z`;
}
