import type { Node, Pair } from '../config/yaml.ts';
import { PlacedError } from '../text/error.ts';
import { equalFold, exactMember, itemsOf, member, requireType, textOf } from './json.ts';
import {
  HNS_API_1,
  HNS_API_2,
  KNOWN_PLUGINS,
  type ListPath,
  type Plugin,
  type PolicyKey,
  pluginsOf,
} from './plugins.ts';

/** The Type of the policy with the list. */
const NAT = 'OutBoundNAT';
/** The name of an item whose value is a policy for HNS. */
const ENDPOINT = 'EndpointPolicy';

/** Mixtures of the two HNS APIs, which no program reads. */
const MIXTURES: readonly ListPath[] = [['Exceptions'], ['Settings', 'ExceptionList']];

export interface NatPolicy {
  readonly policy: Node;
  /** Where the list is or belongs. */
  readonly path: ListPath;
}

/**
 * The OutBoundNAT policies of a CNI config, at most one for each plugin.
 *
 * @throws {PlacedError} if there is none, or if it is unclear which policy or list the plugin reads
 */
export function natPolicies(root: Node): readonly NatPolicy[] {
  const plugins = pluginsOf(root);
  const found = plugins.flatMap(natPolicyOf);
  if (found.length === 0) throw missingPolicy(root, plugins);
  return found;
}

function natPolicyOf(plugin: Plugin): readonly NatPolicy[] {
  const { title, config, key } = plugin;
  const keys: readonly PolicyKey[] = key === undefined ? ['policies', 'AdditionalArgs'] : [key];
  const [policy, second] = keys.flatMap((key) => natPoliciesIn(config, key));
  if (policy === undefined) return [];
  if (second === undefined) return [{ policy, path: pathOf(plugin, policy) }];
  const remedy = 'keep one: HNS applies both, and it is unclear which has the list';
  throw new PlacedError(`has more than one ${NAT} policy in ${title}`, second.offset, remedy);
}

/** The OutBoundNAT policies under a key. Readers of AdditionalArgs compare names exactly, the others ignore case. */
function natPoliciesIn(config: Node, key: PolicyKey): readonly Node[] {
  const isSame = key === 'policies' ? equalFold : Object.is;
  return itemsOf(member(config, key)).flatMap((item) => {
    const policy = member(item, 'value')?.value;
    if (policy === undefined || !isSame(textOf(member(item, 'name')) ?? '', ENDPOINT)) return [];
    return isSame(textOf(member(policy, 'Type')) ?? '', NAT) ? [policy] : [];
  });
}

function pathOf({ title, path }: Plugin, policy: Node): ListPath {
  exactMember(policy, 'Type');
  const settings = exactMember(policy, 'Settings')?.value;
  if (settings !== undefined) requireType(settings, 'map', '"Settings"');

  const written = [HNS_API_1, HNS_API_2, ...MIXTURES].filter((path) => memberAt(policy, path) !== undefined);
  const asWritten = written.includes(HNS_API_1) || settings === undefined ? HNS_API_1 : HNS_API_2;
  const right = path ?? asWritten;
  const wrong = written.find((path) => path !== right);
  if (wrong === undefined) return right;

  const found = `has "${wrong.join('.')}" in an ${NAT} policy`;
  const at = memberAt(policy, wrong)?.key ?? policy;
  if (path !== undefined)
    throw new PlacedError(
      `${found}, which ${title} does not read`,
      at.offset,
      `write ${sample(path)} instead`,
    );
  throw new PlacedError(
    `${found}, but HNS reads either "ExceptionList" or "Settings.Exceptions"`,
    at.offset,
    `write either ${sample(HNS_API_1)} for HNS API 1 or ${sample(HNS_API_2)} for API 2`,
  );
}

/** The member at a path, whose keys HNS and win-bridge compare exactly. */
function memberAt(policy: Node, [first = '', ...rest]: ListPath): Pair | undefined {
  const found = exactMember(policy, first);
  return found === undefined || rest.length === 0 ? found : memberAt(found.value, rest);
}

function missingPolicy(root: Node, plugins: readonly Plugin[]): PlacedError {
  const known = plugins.filter(({ key }) => key !== undefined);
  const [first] = known;
  if (first === undefined) {
    const makers = `plugin that is known to make Windows endpoints (${KNOWN_PLUGINS.join(', ')})`;
    const remedy = `add ${samplePolicy({})} to the list "policies" of the plugin that makes them`;
    return new PlacedError(`has no ${NAT} policy, and no ${makers}`, root.offset, remedy);
  }
  const titles = known.map(({ title }) => title).join(' or ');
  const additions = known.map(
    (plugin) => `${samplePolicy(plugin)} to the list "${plugin.key}" of ${plugin.title}`,
  );
  return new PlacedError(
    `has no ${NAT} policy in ${titles}`,
    first.config.offset,
    `add ${additions.join(', or ')}`,
  );
}

function samplePolicy({ key, path = HNS_API_1 }: Partial<Plugin>): string {
  const [name, value] = key === 'AdditionalArgs' ? ['Name', 'Value'] : ['name', 'value'];
  return `{"${name}": "${ENDPOINT}", "${value}": {"Type": "${NAT}", ${sample(path)}}}`;
}

function sample(path: ListPath): string {
  return path.reduceRight((value, key) => `{"${key}": ${value}}`, '[]').slice(1, -1);
}
