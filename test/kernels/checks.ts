import { DATAPLANES } from '../packets/support.ts';
import { IPV4_ALONE, type Machine } from './machines.ts';

/** A row of the results: tests of one file. */
export interface Check {
  readonly title: string;
  readonly file: string;
  /** Matches the names of its tests, each behind those of its suites. */
  readonly tests: RegExp;
  /** Its dataplane. */
  readonly kind: string;
  /** It is about what the agent says where the dataplane is not there. */
  readonly isAboutLack: boolean;
}

interface Subject {
  readonly title: string;
  readonly file: string;
  readonly tests: (kind: string) => RegExp;
  /** The dataplanes that have it; all, if absent. */
  readonly kinds?: readonly string[];
  /** The machines that show it; all, if absent. */
  readonly machines?: readonly string[];
  readonly isAboutLack?: true;
  /** Needs the addresses of IPv6. */
  readonly needsIPv6?: true;
  /** Those of its tests that `.ci/run` has time for, and that variants of a kernel show; none, if absent. */
  readonly shortTests?: 'all' | ((kind: string) => RegExp);
}

const KINDS = DATAPLANES.map(({ name }) => name);
const WATCHED = ['iptables-nft', 'nftables'];

/** The one flag by which tests of test/e2e name a dataplane. */
const flagOf = (kind: string) => (kind === 'nftables' ? '--backend=nftables' : '--iptables-mode=nft');

const SUBJECTS: readonly Subject[] = [
  {
    title: 'the agent starts, or says what it lacks',
    file: 'test/kernels/dataplanes.test.ts',
    tests: (kind) => RegExp(`^the agent.*, ${kind}$`),
    isAboutLack: true,
    shortTests: 'all',
  },
  {
    title: 'without a flag it takes what the kernel has, and packets arrive',
    file: 'test/kernels/dataplanes.test.ts',
    tests: () => /^--backend=auto /,
    kinds: ['auto'],
    shortTests: 'all',
  },
  {
    title: '`--enable-ipv6` where IPv6 is turned off',
    file: 'test/kernels/dataplanes.test.ts',
    tests: (kind) => RegExp(`^--enable-ipv6 .*, ${kind}$`),
    machines: ['6.1-ipv4'],
    shortTests: 'all',
  },
  {
    title: 'packets of random configs, with all keys, arrive as `explain` says',
    file: 'test/packets/verdicts.test.ts',
    tests: (kind) => RegExp(` ${kind} (?:random ports|ports from ranges)$`),
    shortTests: (kind) => RegExp(` ${kind} random ports$`),
  },
  {
    title: 'an address of the node in a range',
    file: 'test/packets/node-addresses.test.ts',
    tests: (kind) => RegExp(`^packets leave .*: ${kind}(?: |$)`),
    needsIPv6: true,
  },
  {
    title: '`--to-ports`',
    file: 'test/packets/ports.test.ts',
    tests: (kind) => RegExp(`evenly, .*: ${kind}, --random-fully$`),
  },
  {
    title: '`--random-fully=tcp`',
    file: 'test/packets/ports.test.ts',
    tests: (kind) => RegExp(`^the source port ${kind} is another only for the protocols`),
  },
  {
    title: 'drift is repaired at once',
    file: 'test/e2e/drift.test.ts',
    tests: (kind) => RegExp(`${flagOf(kind)} is repaired, told with the program`),
    kinds: WATCHED,
  },
  {
    title: 'a change over netlink that cannot be made changes nothing',
    file: 'test/kernel/netlink.test.ts',
    tests: () => /^a set of IPv. over netlink, \w+ stays as it is if/,
    kinds: ['nftables'],
    needsIPv6: true,
  },
  {
    title: 'whatever other programs make of the table, a sync makes it anew, and a second one writes nothing',
    file: 'test/kernel/random-nftables.test.ts',
    tests: () => /makes what it makes of an empty kernel/,
    kinds: ['nftables'],
    needsIPv6: true,
  },
  {
    title: 'while rules change, each packet has a verdict of the config before or after',
    file: 'test/packets/atomic.test.ts',
    tests: (kind) =>
      RegExp(` (?:an exception|900 exceptions|an exception and its address|sources): ${kind}$`),
    kinds: ['nftables'],
    needsIPv6: true,
  },
  {
    title: 'connections that began before the rules',
    file: 'test/packets/stale-flows.test.ts',
    tests: (kind) => RegExp(`are deleted with --stale.*: ${kind}$`),
    kinds: WATCHED,
    needsIPv6: true,
  },
  {
    title: "Services of kube-proxy's IPVS mode are not against the config",
    file: 'test/packets/against-policy.test.ts',
    tests: (kind) => RegExp(`\\(${kind}\\) are found in IPVS mode `),
    kinds: WATCHED,
    machines: ['6.1'],
    needsIPv6: true,
  },
  {
    title: '`ports`: how many ports are in use',
    file: 'test/packets/ports-run-out.test.ts',
    tests: (kind) => RegExp(`: ${kind}$`),
    kinds: ['nftables'],
    needsIPv6: true,
  },
  {
    title: "1,000 CIDRs within the manifest's memory, cgroup v2",
    file: 'test/e2e/sizing.test.ts',
    tests: (kind) => RegExp(` 1000 CIDRs, ${kind.replace('-nft', '')}, `),
    kinds: WATCHED,
  },
  {
    title: '10,000 CIDRs within the memory of the sizing table, cgroup v2',
    file: 'test/e2e/sizing.test.ts',
    tests: (kind) => RegExp(` 10000 CIDRs, ${kind}, `),
    kinds: ['nftables'],
    machines: ['6.12'],
  },
];

/** What a machine is to show. */
export function checksFor(
  { name, isVariant, parameters, lacks }: Machine,
  isShortRun: boolean,
): readonly Check[] {
  const isShort = isShortRun || isVariant === true;
  return SUBJECTS.filter((one) => !one.needsIPv6 || parameters !== IPV4_ALONE).flatMap(
    ({
      title,
      file,
      tests: all,
      shortTests,
      kinds: some = KINDS,
      machines = [name],
      isAboutLack = false,
    }) => {
      if (!machines.includes(name)) return [];
      const tests = isShort && shortTests !== 'all' ? shortTests : all;
      if (tests === undefined) return [];
      // In a short run, the other tests show that what is there starts.
      const kinds = isShort && isAboutLack ? lacks : some;
      return kinds.map((kind) => ({
        title: `${title}: ${kind}`,
        file,
        tests: tests(kind),
        kind,
        isAboutLack,
      }));
    },
  );
}
