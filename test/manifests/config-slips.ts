import { FAMILIES } from '../../lib/cidr/address.ts';
import { DEFAULT_LIMITS } from '../../lib/config/limits.ts';
import { mergeConfigFiles } from '../../lib/config/load.ts';

/** What people write, and what they are told to do. */
export const SLIPS: readonly (readonly [text: string, said: RegExp])[] = [
  ['nonMasqueradeCIDRs:\n  - 10.0.0.1/8\n', /address.*: 10\.0\.0\.1\/8; write/],
  ['nonMasqueradeCIDRs:\n- "FD00::1/8" # ours\n', /: FD00::1\/8; write/],
  ['masqueradeCIDRs: [10.0.0.0/8, 10.0.0.1/8]', /: 10\.0\.0\.1\/8; write/],
  ['{"masqueradeCIDRs":["10.0.0.1/8","10.0.0.0/8"]}', /: 10\.0\.0\.1\/8; write/],
  ['nonMasqueradeCIDRs: [10.0.0.0/33]', /: 10\.0\.0\.0\/33; write/],
  ['nonMasqueradeCIDRs:\n  - 10.0.0.1\n', /prefix length: 10\.0\.0\.1; write/],
  ["nonMasqueradeCIDRs: ['fd00::1']", /prefix length: fd00::1; write/],
  ['nonMasqueradeCIDRs:\n  - 10.0.0.0/255.0.0.0\n', /: 10\.0\.0\.0\/255\.0\.0\.0; write/],
  ['nonMasqueradeCIDRs: [10.0.0.0/08]', /: 10\.0\.0\.0\/08; write/],
  ['nonMasqueradeCIDRs: ["::ffff:10.0.0.0/104"]', /: ::ffff:10\.0\.0\.0\/104; write/],
  ['nonMasqueradeCIDRs:\n  - 10.0.0.0/8-10.0.0.255\n', /: 10\.0\.0\.0\/8-10\.0\.0\.255; write/],
  ['nonMasqueradeCIDRs: 10.0.0.0/8\n', /are lists; write \[/],
  ['masqueradeFromCIDRs: 10.244.0.0/16\n', /are lists; write \[/],
  ['nonMasqueradeCIDRs:\n  - 10.0.0.0/8, 172.16.0.0/12\n', /item is one network/],
  ['nonMasqueradeCIDRs:\n- 10.0.0.0/8 172.16.0.0/12\n', /item is one network/],
  ["masqueradeCIDRs:\n  - '10.0.0.0/8' ,\r\n", /item is one network/],
  [
    'masqueradeAddresses: [{destination: 0.0.0.0/0, address: 198.51.100.7/24}]\n',
    /: 198\.51\.100\.7\/24; write/,
  ],
  [
    '{"masqueradeAddresses":[{"destination":"0.0.0.0/0","address":"198.51.100.7"}]}',
    /prefix length: 198\.51\.100\.7; write/,
  ],
  [
    'masqueradeAddresses: # where to\n  destination: 0.0.0.0/0\n  address: 198.51.100.0/24\n',
    /masqueradeAddresses is a list; write "- destination/,
  ],
  [
    'masqueradeAddresses:\n- destination: 0.0.0.0/0\n  adress: 198.51.100.0/24\n',
    /unknown key: adress; write .* in an item of masqueradeAddresses, write destination or address/,
  ],
  ['nonMasqueradeCIDR:\n  - 10.0.0.0/8\n', /unknown key: nonMasqueradeCIDR; write one of non/],
  ['{"masqLinkLocalIpv4": true}', /unknown key: masqLinkLocalIpv4; write one of non/],
  ['snatTarget: 10.0.0.1\n', /unknown key: snatTarget; write one of non/],
  ['apiVersion: v1\nkind: ConfigMap\n', /unknown key: apiVersion, kind; /],
  ['masqLinkLocal: true\nmasqueradeCIDRs: []\nMasqLinkLocal: true\n', /masqLinkLocal is set twice/],
  ['masqLinkLocal: "true"\n', /are booleans; write true or false, without quotes/],
  ['masqLinkLocalIPv6: 1\n', /are booleans; write true or false, without quotes/],
  ['MasqLinkLocal: ture # metadata\r\n', /are booleans; write true or false/],
  ['resyncInterval: 60 # seconds\n', /no unit.*; write 60s or 1m30s/],
  ['resyncInterval: 1d\n', /no unit.*; write 60s or 1m30s/],
  ["resyncInterval: '5 min'\r\n", /no unit.*; write 60s or 1m30s/],
  ['nonMasqueradeCIDRs:\n\t- 10.0.0.0/8\n', /with a tab.*; indent with spaces/],
];

/** Much that is a config, however odd. */
export const CONFIGS = [
  '',
  '# nonMasqueradeCIDRs: [10.0.0.1/8]\n#key: 1\n',
  'nonMasqueradeCIDRs: # inside: 10.0.0.1/8, "a b": c\n  - 10.0.0.0/8 # see: docs/net.md\n',
  'NONMASQUERADECIDRS:\n-   "10.0.0.0/8"\n- \'FD00::/8\'\n-\n    10.1.0.0/16\n',
  '{\n\t"nonMasqueradeCIDRs": [\n\t\t"10.0.0.0/8",\n\t\t"0:0:0:0:0:0:0:0/0"\n\t],\n\t"masqLinkLocal" : false\n}\n',
  'nonMasqueradeCIDRs: [10.0.0.0/8,172.16.0.0/12,\n  "::/0"]\r\nmasqLinkLocal: yes\r\nresyncInterval: 1m30s\r\n',
  'nonMasqueradeCIDRs: &a [10.0.0.0/8]\n',
  'masqueradeAddresses:\n- destination: 0.0.0.0/0 # all\n  ADDRESS: 198.51.100.0/24\n-   address: "FD00::/64"\n    Destination: ::/0\n',
  'masqueradeAddresses: [{destination: 8.8.0.0/16,\n  address: 198.51.100.0/24}, {"address":"203.0.113.7/32","destination":"9.9.9.0/24"}]\r\n',
  '{"masqueradeAddresses":[{"destination":"::/0","address":"fd00::/64"}],\n"MASQUERADEFROMCIDRS":[]}',
  'resyncInterval: |-\n  60s\n',
  '"resyncInterval": "1h30.5m2.5s"\r\nmasqLinkLocal: Yes \r\nMASQLINKLOCALIPV6: OFF # as ever\r\n',
  'resyncInterval: 200000µs\n',
  '{\nresyncInterval: 500ms,\nmasqLinkLocal: true,\nmasqLinkLocalIPv6: on\n}\n',
  'masqLinkLocal:\n  true\nresyncInterval:\n  60s\nnonMasqueradeCIDRs:\n- 10.0.0.0/8 \t\n- 172.16.0.0/12 # a, b\n',
  '%YAML 1.1\n---\ncidrLimit: 70\n...\n',
  'nonMasqueradeCIDRs:\n  - "10.0.0.\\\n    0/8"\n',
  '? nonMasqueradeCIDRs\n: - 10.0.0.0/8\n',
];

/** Whether `check` finds no error in it, with flags that let it be whatever it can. */
export function isConfig(text: string): boolean {
  const options = {
    ...DEFAULT_LIMITS,
    families: FAMILIES,
    cidrLimit: 1_000,
    strict: false,
    noMasqAllReservedRanges: false,
    requiredFiles: [],
    checkVerdicts: () => [],
  };
  const { problems } = mergeConfigFiles([{ name: 'ip-masq-a', text }], options);
  return problems.every(({ severity }) => severity !== 'error');
}
