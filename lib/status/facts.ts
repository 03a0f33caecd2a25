import { unreadyReason } from '../agent/out-of-sync.ts';
import { appliedPolicies, type State } from '../agent/state.ts';
import { emptyFilesOf } from '../config/load.ts';
import { KINDS_OF_VALID_CONFIG, type Problem } from '../config/problem.ts';
import { BEGINNINGS, type FlowCount, TREATMENTS } from '../policy/flow-counts.ts';
import { addressRequests, bestAddresses, type Policy } from '../policy/policy.ts';
import type { Metrics } from './metrics.ts';
import { type About, hashOf } from './status-json.ts';

/** Sets the metrics that are facts, as the state says them now. What it does not say has no value. */
export function setFacts(metrics: Metrics, state: State, about: About): void {
  const { version, commit, nodejs } = about.build;
  const { dataplane, netlink, inUse, keptFiles } = state;
  const labels = {
    version,
    commit,
    nodejs,
    dataplane: dataplane?.name ?? '',
  };
  metrics.replace('build_info', [{ labels, value: 1 }]);
  metrics.setOnly('rules_out_of_sync', unreadyReason(state.outOfSync, performance.now()) !== undefined);
  // In the search for the mode, netlink may have been asked.
  const usesNetlink = netlink !== undefined && dataplane?.iptables?.mode !== 'legacy';
  metrics.setOnly('netlink_active', usesNetlink ? netlink === 'works' : undefined);
  metrics.setOnly('last_valid_config_kept', keptFiles && keptFiles === inUse?.configFiles);
  setConfig(metrics, state);
  setKernel(metrics, state);
  setFlows(metrics, state);
}

function setConfig(metrics: Metrics, { reading, inUse, pending, vanished, invalid }: State): void {
  metrics.setOnly('config_valid', reading && invalid === undefined);
  const errors = Map.groupBy(invalid?.error.problems ?? [], ({ kind }) => kind);
  metrics.replace(
    'config_errors',
    Array.from(errors, ([kind, { length: value }]) => ({ labels: { kind }, value })),
  );
  metrics.setOnly('pending_config_seconds', pending && Math.max(0, pending.dueAt - performance.now()) / 1000);
  if (inUse === undefined) return;
  const { configFileNames, problems } = inUse.config;
  metrics.setOnly('vanished_config_files', vanished.size);
  metrics.setOnly('config_files', configFileNames.length);
  metrics.replace('config_info', [{ labels: { hash: hashOf({ inUse }) ?? '' }, value: 1 }]);
  const empty = emptyFilesOf(inUse);
  metrics.replace(
    'config_file_info',
    configFileNames
      .filter((file) => !vanished.has(file))
      .map((file) => ({ labels: { file }, value: empty.includes(file) ? 0 : 1 })),
  );
  const conflicts = Map.groupBy<string, Problem>(problems, ({ kind }) => kind);
  for (const [kind, { severity }] of KINDS_OF_VALID_CONFIG)
    metrics.set('config_problems', { severity, kind }, conflicts.get(kind)?.length ?? 0);
}

function setKernel(metrics: Metrics, state: State): void {
  metrics.replace('masquerade_address_ranges', appliedPolicies(state).flatMap(addressRanges));
  for (const [family, { policy, dataplane, lastSync, lastChange }] of state.families) {
    if (lastSync !== undefined)
      metrics.set('last_sync_success_timestamp_seconds', { family }, lastSync / 1000);
    if (lastChange !== undefined) metrics.set('last_change_timestamp_seconds', { family }, lastChange / 1000);
    for (const verdict of ['not_masqueraded', 'masqueraded'] as const) {
      const count = policy.entries.filter((entry) => entry.verdict === verdict).length;
      metrics.set('config_entries', { family, verdict }, count);
    }
    metrics.set('rules', { family }, dataplane.ruleCount(policy));
  }
}

/** How many addresses are found, in words; the last is for any more. */
const FOUND = ['none', 'one', 'several'] as const;

/** How many ranges of masqueradeAddresses hold so many addresses of the node; empty if the policy asks for none. */
function addressRanges(policy: Policy) {
  const counts = addressRequests(policy).map((one) => Math.min(bestAddresses(one).length, FOUND.length - 1));
  if (counts.length === 0) return [];
  return FOUND.map((found, index) => ({
    labels: { family: policy.family, found },
    value: counts.filter((count) => count === index).length,
  }));
}

function setFlows(metrics: Metrics, { families, flows, podRoutes }: State): void {
  const against = (family: FlowCount['family']) =>
    TREATMENTS.flatMap((verdict) =>
      BEGINNINGS.map((since) => {
        const isMeant = (one: FlowCount) =>
          one.family === family && one.verdict === verdict && one.since === since;
        return { labels: { family, verdict, since }, value: flows?.counts.find(isMeant)?.flows ?? 0 };
      }),
    );
  metrics.replace('flows_against_policy', flows ? [...families.keys()].flatMap(against) : []);
  const byFamily = (values: Iterable<readonly [FlowCount['family'], number]>) =>
    Array.from(values, ([family, value]) => ({ labels: { family }, value }));
  metrics.replace('port_usage_ratio', byFamily(flows?.portUsage ?? []));
  metrics.replace('masqueraded_pod_routes', byFamily(podRoutes ?? []));
}
