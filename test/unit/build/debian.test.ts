import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseStatus, withDependencies } from '../../../build/image/debian.ts';

const paragraph = (name: string, ...fields: readonly string[]) =>
  [
    `Package: ${name}`,
    'Status: install ok installed',
    'Version: 1:2.3-4',
    'Architecture: amd64',
    ...fields,
  ].join('\n');

const STATUS = [
  paragraph(
    'iptables',
    'Pre-Depends: libc6 (>= 2.34)',
    'Depends: libxtables12 (= 1.8.9-2), netbase, awk:any | perl',
  ),
  paragraph(
    'libxtables12',
    'Depends: libc6 (>= 2.34)',
    'Description: netfilter',
    ' Package: none of this',
    ' .',
  ),
  paragraph('libc6'),
  paragraph('netbase'),
  paragraph('mawk', 'Provides: awk (= 1)'),
  paragraph('vim'),
  paragraph('gone').replace('installed', 'config-files').replace('ok installed', 'ok config-files'),
].join('\n\n');

const names = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name);

describe('a status file of dpkg', () => {
  it('names what is unpacked, and not what was removed', () => {
    const packages = parseStatus(`${STATUS}\n\n`);
    assert.deepEqual(names(packages), ['iptables', 'libxtables12', 'libc6', 'netbase', 'mawk', 'vim']);
  });

  it('tells version, architecture and relations of a package', () => {
    const [iptables] = parseStatus(STATUS);
    assert.deepEqual(
      { ...iptables, paragraph: undefined },
      {
        name: 'iptables',
        version: '1:2.3-4',
        architecture: 'amd64',
        depends: [['libc6'], ['libxtables12'], ['netbase'], ['awk', 'perl']],
        provides: [],
        paragraph: undefined,
      },
    );
    assert.match(iptables?.paragraph ?? '', /^Package: iptables\n/);
  });

  it('is refused where a package has no version', () => {
    assert.throws(() => parseStatus(STATUS.replace('Version: 1:2.3-4\n', '')), /no field version/);
  });
});

describe('the packages of the image', () => {
  it('are those that are asked for and all that they depend on, whatever provides it, in order', () => {
    const found = withDependencies(parseStatus(STATUS), ['iptables']);
    assert.deepEqual(names(found), ['iptables', 'libc6', 'libxtables12', 'mawk', 'netbase']);
  });

  it('are all there, or there is no image', () => {
    const packages = parseStatus(STATUS).filter(({ name }) => name !== 'netbase');
    assert.throws(() => withDependencies(packages, ['iptables']), {
      message: 'the package netbase is missing; iptables needs it',
    });
  });
});
