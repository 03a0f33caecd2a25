import { quote } from '../../text/escape.ts';
import { CniError } from './cni-error.ts';
import {
  field,
  type Member,
  member,
  requireExact,
  requireItems,
  requireString,
  requireType,
  sameFolded,
  stringOf,
} from './json-node.ts';
import type { Plugin, PolicyKey } from './plugins.ts';
import type { Node } from './strict-json.ts';

/** The Type of the policy that has the list. */
export const NAT = 'OutBoundNAT';
/** The name of the item whose value is a policy for HNS. */
export const ENDPOINT = 'EndpointPolicy';

const POLICY_KEYS: readonly PolicyKey[] = ['policies', 'AdditionalArgs'];

/**
 * The value of a plugin's OutBoundNAT policy; undefined where it has none.
 *
 * @throws {CniError} where there are several, or one that the plugin would not read
 */
export function natPolicy(plugin: Plugin): Node | undefined {
  rejectOldPolicies(plugin);
  const [first, second] = POLICY_KEYS.flatMap((key) => natPoliciesIn(plugin, key));
  if (second === undefined) return first;
  throw new CniError(
    `has more than one ${NAT} policy in plugin ${quote(plugin.name)}`,
    second,
    'keep one; HNS would apply both, and it is not clear which has the list',
  );
}

/**
 * The member of a policy.
 *
 * @throws {CniError} where its key is written in a case that nobody reads: HNS and the exact reader of
 *   win-bridge get the policy as it is, only some plugins decode it
 */
export function policyMember({ dialect }: Plugin, policy: Node, name: string): Member | undefined {
  const found = member(policy, name);
  if (found !== undefined && !dialect?.decodesPolicy) requireExact(found, name, 'HNS');
  return found;
}

/** HcnPolicyArgs had the policies of API 2 in early versions of win-bridge; later ones read policies for both. */
function rejectOldPolicies({ config }: Plugin): void {
  const old = member(config, 'HcnPolicyArgs');
  if (old === undefined || !(old.value.children ?? []).some(isNat)) return;
  const message = `has an ${NAT} policy in "HcnPolicyArgs", which plugins no longer read`;
  throw new CniError(message, old.key, 'move it to "policies"');
}

function natPoliciesIn(plugin: Plugin, key: PolicyKey): readonly Node[] {
  const { config, name, dialect } = plugin;
  const list = member(config, key);
  if (list === undefined || list.value.type === 'null') return [];
  const reads = dialect?.key === key;
  // To other plugins these keys may mean something else.
  if (!reads && list.value.type !== 'array') return [];
  const found = requireItems(list.value, key).flatMap((item) => {
    if (reads) requireWellFormed(item);
    const value = field(item, 'value');
    if (value === undefined || !isNat(value)) return [];
    requireRead(plugin, item, value);
    return [value];
  });
  if (found.length === 0 || reads || dialect === undefined) return found;
  throw new CniError(
    `has an ${NAT} policy in "${key}", which plugin ${quote(name)} does not read`,
    list.key,
    `move it to "${dialect.key}"`,
  );
}

/** Whatever its Type, as Go would refuse the whole config. */
function requireWellFormed(item: Node): void {
  requireType(item, 'object', 'a policy');
  const value = field(item, 'value');
  if (value === undefined) return;
  const type = member(requireType(value, 'object', 'the value of a policy'), 'Type');
  if (type !== undefined) requireString(type.value, '"Type"');
}

function isNat(policy: Node): boolean {
  const type = field(policy, 'Type');
  return type?.type === 'string' && sameFolded(stringOf(type), NAT);
}

/** That the plugin takes the policy for what it looks like. */
function requireRead(plugin: Plugin, item: Node, policy: Node): void {
  const { name, dialect } = plugin;
  const type = policyMember(plugin, policy, 'Type')?.value;
  if (type !== undefined && dialect?.decodesPolicy && stringOf(type) !== NAT) {
    const found = quote(stringOf(type));
    const message = `has a policy of Type ${found}, which ${quote(name)} does not take for ${NAT}`;
    throw new CniError(message, type, `write "${NAT}"`);
  }
  const label = member(item, 'name')?.value;
  const said = label?.type === 'string' ? stringOf(label) : '';
  const folds = dialect?.key !== 'AdditionalArgs';
  if (folds ? sameFolded(said, ENDPOINT) : said === ENDPOINT) return;
  const found = label === undefined ? 'no name' : `the name ${quote(said)}`;
  const message = `has an ${NAT} policy with ${found}, which plugin ${quote(name)} skips`;
  throw new CniError(message, label ?? item, `name it "${ENDPOINT}"`);
}
