import type { ProblemKind, Severity } from './problem.ts';

/** What each kind of problem says about a config, in one sentence. */
export const KIND_MEANING: Readonly<Record<ProblemKind, string>> = {
  unreadable: 'A source or the config directory cannot be read.',
  'not-a-source': 'A file is left out because of its name.',
  'no-source': 'Nothing that was to be checked holds a source.',
  'same-name': 'Sources have the same name, so that no volume can hold all of them.',
  encoding: 'A source is not text in UTF-8.',
  syntax: 'A source is not one document of valid YAML or JSON.',
  empty: 'A source sets nothing.',
  shape: 'A value is not of the type, or not in the range, that its place demands.',
  'unknown-key': 'A key is none that a config has.',
  'duplicate-key': 'A key is set twice in one source.',
  cidr: 'A text is no network in its one canonical notation.',
  'ipv6-disabled': 'An IPv6 network is listed where IPv6 is not enabled.',
  'cidr-limit': 'A source lists more networks than it may.',
  duration: 'A text is no duration, or one that is too short or too long.',
  'both-lists': 'A network is to be masqueraded and not to be masqueraded.',
  'resync-interval': 'Sources set different resync intervals.',
  'link-local-flag': 'Sources disagree on whether link-local traffic is masqueraded.',
  'link-local-entry': 'A list says the opposite of the setting for link-local traffic.',
  'opposite-nested': 'An entry makes an exception to what another source lists.',
  duplicate: 'A network is twice in the same list.',
  covered: 'An entry changes nothing because a wider one of the same list contains it.',
};

/** How grave a problem of each kind is, where warnings are not taken for errors. */
export const KIND_SEVERITY: Readonly<Record<ProblemKind, Severity>> = {
  unreadable: 'error',
  'not-a-source': 'warning',
  'no-source': 'error',
  'same-name': 'error',
  encoding: 'error',
  syntax: 'error',
  empty: 'warning',
  shape: 'error',
  'unknown-key': 'error',
  'duplicate-key': 'error',
  cidr: 'error',
  'ipv6-disabled': 'error',
  'cidr-limit': 'error',
  duration: 'error',
  'both-lists': 'error',
  'resync-interval': 'error',
  'link-local-flag': 'warning',
  'link-local-entry': 'warning',
  'opposite-nested': 'info',
  duplicate: 'info',
  covered: 'info',
};

/** All kinds of problems, in an order that does not change from run to run. */
export const KINDS = Object.keys(KIND_MEANING) as readonly ProblemKind[];
