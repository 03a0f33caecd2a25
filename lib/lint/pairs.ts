import type { MapNode, Node } from '../config/yaml.ts';

/** A key and its value, in a map. */
export type Pair = MapNode['pairs'][number];

/**
 * The pairs of a map; behind them those that merge keys (`<<: *anchor`, YAML 1.1) add because the map does not set
 * them itself. A key that is set twice is there twice.
 */
export function pairsOf(map: MapNode): readonly Pair[] {
  if (!map.pairs.some(isMerge)) return map.pairs;
  const pairs: Pair[] = [];
  const names = new Set<string>();
  const maps = new Set([map]); // grows while it is walked, but not endlessly: an alias adds no map anew
  for (const { pairs: all } of maps) {
    const own = all.filter((pair) => !isMerge(pair) && !names.has(keyName(pair.key)));
    for (const pair of own) {
      pairs.push(pair);
      names.add(keyName(pair.key));
    }
    for (const merged of all.filter(isMerge).flatMap(({ value }) => items(value)))
      if (merged.kind === 'map') maps.add(merged);
  }
  return pairs;
}

/** The first value of that key. */
export function valueAt(node: Node | undefined, name: string): Node | undefined {
  return node?.kind === 'map' ? pairsOf(node).find(({ key }) => keyName(key) === name)?.value : undefined;
}

/** The first value of that key, where it is text. */
export function textAt(node: Node | undefined, name: string): string | undefined {
  const value = valueAt(node, name);
  return value?.kind === 'scalar' && typeof value.value === 'string' ? value.value : undefined;
}

/** A key as text, as Kubernetes' YAML reader takes it; empty for a map or list. */
export function keyName(key: Node): string {
  return key.kind === 'scalar' ? String(key.value) : '';
}

/** Not in quotes, which would make it longer. */
function isMerge({ key }: Pair): boolean {
  return key.kind === 'scalar' && key.value === '<<' && key.end - key.offset === 2;
}

function items(node: Node): readonly Node[] {
  return node.kind === 'list' ? node.items : [node];
}
