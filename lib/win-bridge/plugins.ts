import type { Node } from '../config/yaml.ts';
import { PlacedError } from '../text/error.ts';
import { quote } from '../text/escape.ts';
import { exactMember, itemsOf, member, requireType, textOf } from './json.ts';

/** The keys from an OutBoundNAT policy to its list. */
export type ListPath = readonly string[];

/** The path in `{"Type": "OutBoundNAT", "ExceptionList": [...]}`. */
export const HNS_API_1: ListPath = ['ExceptionList'];
/** The path in `{"Type": "OutBoundNAT", "Settings": {"Exceptions": [...]}}`. */
export const HNS_API_2: ListPath = ['Settings', 'Exceptions'];

export type PolicyKey = 'policies' | 'AdditionalArgs';

interface Dialect {
  readonly key: PolicyKey;
  /** Undefined if `apiVersion` or the policy itself decides. */
  readonly path?: ListPath;
}

const DIALECTS: ReadonlyMap<string, Dialect> = new Map<string, Dialect>([
  // containernetworking/plugins, pkg/hns/netconf_windows.go: passes the policy to HNS without a change.
  ['win-bridge', { key: 'policies' }],
  ['win-overlay', { key: 'policies' }],
  // projectcalico/calico, winpol/windows_policy.go: reads API 1 and converts it to API 2 itself.
  ['calico', { key: 'policies', path: HNS_API_1 }],
  // Azure/azure-container-networking, network/policy/policy_windows.go: the same.
  ['azure-vnet', { key: 'AdditionalArgs', path: HNS_API_1 }],
  // microsoft/windows-container-networking, cni/cni.go and example/: calls API 2 only.
  ['sdnbridge', { key: 'AdditionalArgs', path: HNS_API_2 }],
  ['sdnoverlay', { key: 'AdditionalArgs', path: HNS_API_2 }],
]);

/** Runs another plugin, with the config in its `delegate`: flannel-io/cni-plugin, flannel_windows.go. */
const DELEGATING = 'flannel';
const DEFAULT_DELEGATE = 'win-bridge';

/** The plugins that are known to make endpoints. */
export const KNOWN_PLUGINS: readonly string[] = [...DIALECTS.keys(), DELEGATING];

export interface Plugin {
  /** The name of the plugin in messages, such as `plugin "win-bridge"`. */
  readonly title: string;
  /** The object that has the policies: the plugin's own or the one it delegates to. */
  readonly config: Node;
  /** Undefined if the plugin is not known to make endpoints. */
  readonly key: PolicyKey | undefined;
  /** The one path that the plugin reads; undefined if the policy itself decides. */
  readonly path: ListPath | undefined;
}

/** The plugins of a `.conflist`, which has the key `plugins`, or the one plugin of a `.conf`. */
export function pluginsOf(root: Node): readonly Plugin[] {
  requireType(root, 'map', 'a CNI config');
  // libcni reads this key from a map, so its case must be exact.
  const list = exactMember(root, 'plugins');
  if (list === undefined) return [pluginOf(root)];
  const type = member(root, 'type')?.key;
  if (type !== undefined) {
    const message = 'has both "plugins" and "type": a .conflist has the first, a .conf the second';
    throw new PlacedError(message, type.offset, 'remove the one that does not belong here');
  }
  requireType(list.value, 'list', '"plugins"');
  for (const item of itemsOf(list)) requireType(item, 'map', 'a plugin');
  return itemsOf(list).map(pluginOf);
}

function pluginOf(object: Node): Plugin {
  const name = textOf(member(object, 'type'));
  if (name === undefined) {
    const remedy = 'write the name of the plugin, such as "type": "win-bridge"';
    throw new PlacedError('has a plugin without "type"', object.offset, remedy);
  }
  if (programName(name) !== DELEGATING) return pluginNamed(name, object);
  const delegate = member(object, 'delegate')?.value;
  if (delegate?.kind === 'map')
    return pluginNamed(textOf(member(delegate, 'type')) ?? DEFAULT_DELEGATE, delegate);
  const message = `has no "delegate" in its plugin "${DELEGATING}", which makes no endpoint itself`;
  throw new PlacedError(message, object.offset, 'write "delegate": {"type": "win-bridge"} or "win-overlay"');
}

function pluginNamed(name: string, config: Node): Plugin {
  const dialect = DIALECTS.get(programName(name));
  const title = `plugin ${quote(name)}`;
  const version = member(config, 'apiVersion')?.value;
  if (dialect?.path !== undefined || version?.kind !== 'scalar' || version.value !== 2)
    return { title, config, key: dialect?.key, path: dialect?.path };
  return { title: `${title} with apiVersion 2`, config, key: dialect?.key, path: HNS_API_2 };
}

/** The name of a plugin's program: Windows also accepts `Win-Bridge.exe`. */
function programName(name: string): string {
  return name.toLowerCase().replace(/\.exe$/, '');
}
