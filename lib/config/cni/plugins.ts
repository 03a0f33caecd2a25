import { CniError } from './cni-error.ts';
import {
  describe,
  field,
  fold,
  member,
  requireExact,
  requireItems,
  requireString,
  requireType,
} from './json-node.ts';
import type { Node } from './strict-json.ts';

/** The key of a plugin that holds its policies. */
export type PolicyKey = 'policies' | 'AdditionalArgs';

/**
 * The two ways of writing the list, by the key that holds it:
 *
 * - HNS API 1: `{"Type": "OutBoundNAT", "ExceptionList": [...]}`
 * - HNS API 2: `{"Type": "OutBoundNAT", "Settings": {"Exceptions": [...]}}`
 */
export type Form = 'ExceptionList' | 'Exceptions';

/** How a plugin reads its policies. */
export interface Dialect {
  /** Whoever reads AdditionalArgs compares the name EndpointPolicy exactly, the others in any case. */
  readonly key: PolicyKey;
  /** Undefined where the policy itself decides, or `apiVersion` 2. */
  readonly form?: Form;
  /** Whether keys of the policy match in any case, but the Type only as it is written: OutBoundNAT. */
  readonly decodesPolicy?: true;
}

const DIALECTS: ReadonlyMap<string, Dialect> = new Map<string, Dialect>([
  // containernetworking/plugins, pkg/hns/netconf_windows.go: hands the policy to HNS as it is written.
  ['win-bridge', { key: 'policies' }],
  ['win-overlay', { key: 'policies' }],
  // projectcalico/calico, winpol/windows_policy.go: reads API 1 and makes API 2 of it itself.
  ['calico', { key: 'policies', form: 'ExceptionList' }],
  // Azure/azure-container-networking, network/policy/policy_windows.go: so does this, from a Go struct.
  ['azure-vnet', { key: 'AdditionalArgs', form: 'ExceptionList', decodesPolicy: true }],
  // microsoft/windows-container-networking, cni/cni.go and example/: calls API 2 only.
  ['sdnbridge', { key: 'AdditionalArgs', form: 'Exceptions' }],
  ['sdnoverlay', { key: 'AdditionalArgs', form: 'Exceptions' }],
]);

/** Runs another plugin, with the config in its `delegate`: flannel-io/cni-plugin, flannel_windows.go. */
const DELEGATING = 'flannel';
const DEFAULT_DELEGATE = 'win-bridge';

/** The plugins that are known to make endpoints. */
export const KNOWN_PLUGINS: readonly string[] = [...DIALECTS.keys(), DELEGATING];

export interface Plugin {
  /** The object that has the policies: the plugin's own or the one it delegates to. */
  readonly config: Node;
  readonly name: string;
  /** Undefined for a plugin that is not known to make endpoints. */
  readonly dialect: Dialect | undefined;
}

/** The plugins of a `.conflist`, or the one of a `.conf`; `plugins` at the top tells which it is. */
export function pluginsOf(root: Node): readonly Plugin[] {
  if (root.type !== 'object') {
    throw new CniError(`is ${describe(root)}, not a CNI config`, root, 'write one object in braces');
  }
  const list = member(root, 'plugins');
  if (list === undefined) return [pluginOf(root)];
  // libcni decodes this one key from a map, which does not fold.
  requireExact(list, 'plugins', 'libcni');
  const type = member(root, 'type');
  if (type !== undefined) {
    const message = 'has both "plugins" and "type": a .conflist has the first, a .conf the second';
    throw new CniError(message, type.key, 'remove the one that does not belong here');
  }
  return requireItems(list.value, 'plugins').map((item) => pluginOf(requireType(item, 'object', 'a plugin')));
}

function pluginOf(object: Node): Plugin {
  const name = typeOf(object);
  if (name === undefined) {
    const remedy = 'write the name of the plugin, such as "type": "win-bridge"';
    throw new CniError('has a plugin without "type"', object, remedy);
  }
  if (programName(name) !== DELEGATING) return { config: object, name, dialect: dialectOf(name) };
  const delegate = member(object, 'delegate');
  if (delegate === undefined) {
    const message = `has no "delegate" in its plugin "${DELEGATING}", which makes no endpoint itself`;
    throw new CniError(message, object, 'write "delegate": {"type": "win-bridge"} or "win-overlay"');
  }
  const config = requireType(delegate.value, 'object', '"delegate"');
  const inner = typeOf(config) ?? DEFAULT_DELEGATE;
  return { config, name: inner, dialect: dialectOf(inner) };
}

function typeOf(object: Node): string | undefined {
  const type = field(object, 'type');
  return type && requireString(type, '"type"');
}

function dialectOf(name: string): Dialect | undefined {
  return DIALECTS.get(programName(name));
}

/** Windows finds `Win-Bridge.exe` as well. */
function programName(name: string): string {
  return fold(name).replace(/\.exe$/, '');
}
