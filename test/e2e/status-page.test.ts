import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { startChromium, type View } from '../lab/chromium.ts';
import { readPng } from '../lab/png.ts';
import type { Files } from '../lab/volume.ts';
import { createNode, type NodeLab } from './support.ts';

const PAGE = 'http://127.0.0.1:9614/statusz';
const TITLE = /^ip-masq-agent on \S+$/;

const SIZES = { phone: { width: 390, height: 844 }, desktop: { width: 1280, height: 800 } } as const;
const SCHEMES = { light: 0xffffff, dark: 0x0d1117 } as const;

/** Conflicts, an exception, a long address. */
const FILES: Files = {
  'ip-masq-cloud': `nonMasqueradeCIDRs: [10.224.0.0/12, 10.244.0.0/16, "2001:db8:1234:5678:9abc:def0:1234:0/112"]
masqLinkLocal: true
`,
  'ip-masq-operator': `nonMasqueradeCIDRs: [172.16.0.0/12, 10.244.0.0/16]
masqueradeCIDRs: [172.20.99.0/24]
masqLinkLocal: false
resyncInterval: 60s
`,
};
const LONG_NAME = `ip-masq-${'x'.repeat(200)}`;

/** What would be an element, an attribute with a script, or the end of another, if it were not escaped. */
const HOSTILE = [
  '<img src=x onerror=alert(1)>',
  '"><script>document.title=1;<&#47;script>',
  "' onmouseover='alert(1)",
  '&lt;script&gt;&amp;',
  '--><svg onload=alert(1)>',
];
/** Characters that control a terminal, or turn the direction of text, are shown as what they are. */
const CONTROL = { name: 'ip-masq-\u202e\u0007x', shown: 'ip-masq-\\u{202e}\\x07x' };

/** What the page is made of. */
const ELEMENTS =
  'html head meta title style body h1 h2 section p ul li pre dl dt dd table thead tbody tr th td'.split(' ');
const ATTRIBUTES = ['charset', 'class', 'content', 'data-name', 'lang', 'name', 'scope'];

describe('the status page in a browser', () => {
  it('is text that can be read, in light and dark, no wider than a phone or a desktop', async () => {
    await using node = await nodeWith({ ...FILES, [LONG_NAME]: '{}\n' }, ['a rule of somebody']);
    await using browser = await startChromium(node.box);
    for (const [device, size] of Object.entries(SIZES)) {
      for (const [scheme, background] of Object.entries(SCHEMES)) {
        const view = { ...size, scheme } as View;
        const page = await browser.open(PAGE, view);
        assert.equal(await page.evaluate('document.documentElement.scrollWidth'), size.width, device);
        assert.deepEqual(await page.evaluate(WIDER_THAN_SHOWN), [], device);
        assert.deepEqual(await page.evaluate(PALE), [], scheme);
        assertText(await page.screenshot(), background);
        const blank = await browser.open(blankPage(background), view);
        const picture = await blank.screenshot();
        assert.throws(() => assertText(picture, background), /of the picture is text/);
      }
    }
  });

  it('shows hostile names and rules as text: no element, attribute or script comes of them', async () => {
    const names = [...HOSTILE.map((text) => `ip-masq-${text}`), CONTROL.name];
    // Of these iptables escapes nothing.
    const rules = HOSTILE.filter((text) => !/["']/.test(text)).map((text) => `rule ${text}`);
    await using node = await nodeWith(
      Object.fromEntries(names.map((name) => [name, 'nonMasqueradeCIDRs: [10.244.0.0/16]\n'])),
      rules,
    );
    await using browser = await startChromium(node.box);
    const page = await browser.open(PAGE, { ...SIZES.desktop, scheme: 'light' });
    const [elements, attributes] = await page.evaluate<[string[], string[]]>(MADE_OF);
    assert.deepEqual(
      elements.filter((name) => !ELEMENTS.includes(name)),
      [],
    );
    assert.deepEqual(attributes, ATTRIBUTES);
    assert.match(await page.evaluate('document.title'), TITLE);
    const text = await page.evaluate<string>('document.body.innerText');
    for (const shown of [...names.slice(0, -1), CONTROL.shown, ...rules])
      assert.ok(text.includes(shown), `${shown} in ${text}`);
  });

  it('runs no script and loads nothing, even if something were not escaped', async () => {
    await using node = await nodeWith(FILES);
    await using browser = await startChromium(node.box);
    const view = { ...SIZES.desktop, scheme: 'light' } as const;
    const page = await browser.open(PAGE, view);
    for (const attack of ATTACKS) await page.evaluate(attack);
    assert.match(await page.evaluate('document.title'), TITLE);
    const unguarded = await browser.open(blankPage(0), view);
    for (const attack of ATTACKS) {
      await unguarded.evaluate('document.title = ""');
      await unguarded.evaluate(attack);
      assert.equal(await unguarded.evaluate('document.title'), 'attacked', attack);
    }
  });
});

/** Each sets the title of a page that lets it. */
const ATTACKS = [
  `document.body.insertAdjacentHTML('beforeend', '<a id="a1" onclick="document.title = \\'attacked\\'">x</a>');
   document.getElementById('a1').click()`,
  `document.body.append(Object.assign(document.createElement('script'), { text: 'document.title = "attacked"' }))`,
];

/** Elements whose content does not fit into them: their beginnings. */
const WIDER_THAN_SHOWN = `[...document.body.querySelectorAll('*')]
  .filter((element) => element.clientWidth > 0 && element.scrollWidth > element.clientWidth)
  .map((element) => element.outerHTML.slice(0, 100))`;

/** Texts with less contrast than WCAG 2 asks for at level AA (success criterion 1.4.3). */
const PALE = `(() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = light(getComputedStyle(document.body).backgroundColor);
  const contrast = (element) => {
    const [dark, bright] = [light(getComputedStyle(element).color), behind].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  return [...document.body.querySelectorAll('*')]
    .filter((element) => contrast(element) < 4.5)
    .map((element) => element.outerHTML.slice(0, 100));
})()`;

/** The names of all elements, and of all attributes. */
const MADE_OF = `(() => {
  const elements = [...document.querySelectorAll('*')];
  const attributes = elements.flatMap((element) => element.getAttributeNames());
  return [[...new Set(elements.map(({ localName }) => localName))], [...new Set(attributes)].sort()];
})()`;

/** Of the picture's pixels. */
const TEXT = { least: 0.01, most: 0.2 };

/** Asserts that the picture is mostly of the colour `0xRRGGBB`, and has as much on it as a page of text has. */
function assertText(png: Buffer, background: number): void {
  const { width, height, colours } = readPng(png);
  const [[colour, pixels] = [0, 0]] = colours;
  assert.equal(colour.toString(16), background.toString(16));
  const share = 1 - pixels / (width * height);
  assert.ok(share > TEXT.least && share < TEXT.most, `${share} of the picture is text`);
}

/** Only a colour. */
function blankPage(colour: number): string {
  return `data:text/html,<body style="background:rgb(${[colour >> 16, (colour >> 8) & 255, colour & 255]})">`;
}

/** A node where the agent runs, with these files, and rules of others that have these comments. */
async function nodeWith(files: Files, comments: readonly string[] = []): Promise<NodeLab> {
  await using stack = new AsyncDisposableStack();
  const node = stack.use(await createNode());
  await node.volume(files);
  for (const [index, comment] of comments.entries()) {
    const match = ['-d', `10.244.${index}.0/24`, '-m', 'comment', '--comment', comment];
    await node.iptables('-A', 'POSTROUTING', ...match, '-j', 'MASQUERADE');
  }
  const agent = node.start('--metrics-bind-address=127.0.0.1:9614', '--enable-ipv6');
  await agent.logged(/metrics, probes and status on/);
  if (comments.length > 0) await agent.logged(/may masquerade traffic to/);
  const owned = stack.move();
  return { ...node, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
