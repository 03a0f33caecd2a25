import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { State } from '../../../lib/agent/state.ts';
import type { Dataplane } from '../../../lib/dataplane/dataplane.ts';
import { PacketCounts } from '../../../lib/status/packet-counts.ts';
import { mergedOf } from '../config/support.ts';
import { pageOf, stateOf, synced } from './support.ts';

describe('the status page', () => {
  it('says where nothing has been synced yet', () => {
    const page = textOf(pageOf(stateOf()));
    assert.match(page, /Z: not ready, sync IPv4: /);
    assert.match(page, /no valid config has been read/);
    assert.match(page, /IPv4 none yet/);
  });

  it('shows what runs where, what is applied, and who asks for it', async () => {
    const state = of({ a: 'nonMasqueradeCIDRs: [10.0.0.0/8]\nresyncInterval: 90s\n' });
    const counts = new PacketCounts();
    const policy = state.families.get('IPv4')?.policy;
    assert.ok(policy);
    const entry = policy.entries.find(({ prefix }) => prefix.text === '10.0.0.0/8');
    const found = [{ entry, countedAs: 'not_masqueraded', packets: 7n }];
    await counts.read({ count: async () => found } as unknown as Dataplane, policy);
    const page = textOf(pageOf(state, counts));
    assert.match(page, /^ip-masq-agent on node-1 .*Z: ready ip-masq-agent 1\.2\.3 /);
    assert.match(page, / 10\.0\.0\.0\/8 not masqueraded a:1:22 7 everything else masqueraded $/);
    assert.match(page, / config files a .* resyncInterval 90 s, a:2:17 /);
    assert.match(
      page,
      / Last change of verdicts none since the agent started .* Conflicts and checks none Connections against the config not read What else does NAT here, in the order of packets not read: not read yet /,
    );
  });

  it('shows the last change of verdicts, escaped', () => {
    const lines = ['10.0.0.0/8: cannot be told (<b>\u001b[0m) → masqueraded'];
    const lastVerdicts = { summary: 'the old verdict of 1 address cannot be told', lines, at: 0 };
    const page = pageOf(synced(mergedOf({}), { lastVerdicts }));
    assert.ok(
      page.includes('<pre>10.0.0.0/8: cannot be told (&#60;b&#62;\\x1b[0m) → masqueraded</pre>'),
      page,
    );
    assert.match(
      textOf(page),
      / Last change of verdicts [\d-]+T[\d:]+Z, IPv4: the old verdict of 1 address cannot be told 10\..* connections that exist keep their source address /,
    );
  });

  it('shows a hostile name of a config file as text, wherever it is', () => {
    const page = pageOf(of({ '<b title="x">': 'nonMasqueradeCIDRs: [10.0.0.0/8, 10.0.0.0/8]\n' }));
    assert.doesNotMatch(page, /<b /);
    const name = '&#60;b title=&#34;x&#34;&#62;';
    for (const html of [`<dd>${name}</dd>`, `">${name}:1:22</td>`, `<li>${name}:1:34: info`])
      assert.ok(page.includes(html), html);
  });

  it('shows the first of many entries and of many conflicts, and how many more there are', () => {
    const cidrs = Array.from({ length: 600 }, (_, index) => `10.${index >> 8}.${index & 255}.0/24`);
    const text = `cidrLimit: 1000\nnonMasqueradeCIDRs: [${cidrs}]\n`;
    const page = textOf(pageOf(of({ a: text, b: text })));
    // Link-local is an entry too.
    assert.match(
      page,
      / 10\.1\.242\.0\/24 not masqueraded .* everything else masqueraded … and 101 more: see \/configz $/,
    );
    assert.doesNotMatch(page, /10\.1\.243\.0\/24 not/);
    assert.match(
      page,
      / 10\.0\.99\.0\/24 is listed twice .* there are more problems than these 100;.* Connections against the config /,
    );
    assert.doesNotMatch(page, /10\.0\.100\.0\/24 is/);
  });
});

function of(texts: Readonly<Record<string, string>>): State {
  return synced(mergedOf(texts, { cidrLimitMax: 2000 }));
}

/** What a reader sees, in one line. */
function textOf(page: string): string {
  const [, body = ''] = /<body>(.*)<\/body>/s.exec(page) ?? [];
  return body
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')
    .trimStart();
}
