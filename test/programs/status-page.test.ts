import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createNode } from '../e2e/support.ts';
import { startChromium } from './chromium.ts';

const ADDRESS = '127.0.0.1:9614';
const WIDTHS = { phone: 390, desktop: 1280 } as const;

/** What would be an element, an attribute, or the end of another, if it were not escaped. */
const HOSTILE = [
  '<img src=x onerror=alert(1)>',
  '"><script>document.title=1;<&#47;script>',
  "' onmouseover='alert(1)",
  '&lt;script&gt;&amp;',
  '--><svg onload=alert(1)>',
];
const CONFIG_FILES = [...HOSTILE, 'x'.repeat(200)].map((text) => `ip-masq-${text}`);

const ELEMENTS =
  'html head meta title style body h1 h2 section p ul li pre dl dt dd table thead tbody tr th td'.split(' ');
const ATTRIBUTES = ['charset', 'class', 'content', 'data-name', 'lang', 'name', 'scope'];

describe('the status page in Chromium', () => {
  it('shows hostile names and rules as text, no wider than the screen, and runs no script', async () => {
    await using node = await createNode();
    await node.volume(
      Object.fromEntries(
        CONFIG_FILES.map((name) => [
          name,
          'nonMasqueradeCIDRs: [10.244.0.0/16, "2001:db8:1234:5678::/64"]\n',
        ]),
      ),
    );
    const agent = node.start(`--metrics-bind-address=${ADDRESS}`, '--enable-ipv6');
    await agent.logged(new RegExp(ADDRESS));

    await using browser = await startChromium(node.box);
    for (const [device, width] of Object.entries(WIDTHS)) {
      const evaluate = await browser.open(`http://${ADDRESS}/statusz`, width);
      assert.equal(await evaluate('document.documentElement.scrollWidth'), width, device);
      assert.deepEqual(await evaluate(OVERFLOWING), [], device);
      const [elements, attributes] = await evaluate<[string[], string[]]>(MADE_OF);
      assert.deepEqual(
        elements.filter((name) => !ELEMENTS.includes(name)),
        [],
      );
      assert.deepEqual(attributes, ATTRIBUTES);
      const text = await evaluate<string>('document.body.innerText');
      for (const shown of CONFIG_FILES) assert.ok(text.includes(shown), `${shown} in ${text}`);
      await evaluate(ATTACK);
      assert.match(await evaluate('document.title'), /^ip-masq-agent on \S+$/);
    }
  });
});

/** Elements whose content does not fit into them: their beginnings. */
const OVERFLOWING = `[...document.body.querySelectorAll('*')]
  .filter((element) => element.clientWidth > 0 && element.scrollWidth > element.clientWidth)
  .map((element) => element.outerHTML.slice(0, 100))`;

/** The names of all elements, and of all attributes. */
const MADE_OF = `(() => {
  const elements = [...document.querySelectorAll('*')];
  const attributes = elements.flatMap((element) => element.getAttributeNames());
  return [[...new Set(elements.map(({ localName }) => localName))], [...new Set(attributes)].sort()];
})()`;

/** Runs at once in a page whose Content-Security-Policy permits scripts. */
const ATTACK = `document.body.append(
  Object.assign(document.createElement('script'), { text: 'document.title = "attacked"' }))`;
