import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { pairsHtml, tableHtml } from '../../../lib/status/status-page.ts';

const HOSTILE = '<a title="x" href=\'y\'>&amp;</a>\u202e';
const ESCAPED = '&#60;a title=&#34;x&#34; href=&#39;y&#39;&#62;&#38;amp;&#60;/a&#62;\\u{202e}';

describe('HTML', () => {
  it('makes tables whose rows name themselves, and whose cells name their column', () => {
    assert.equal(
      tableHtml(['what', HOSTILE], [[HOSTILE, HOSTILE]]),
      `<table>
<thead><tr><th>what</th><th>${ESCAPED}</th></tr></thead>
<tbody>
<tr><th scope="row">${ESCAPED}</th><td data-name="${ESCAPED}">${ESCAPED}</td></tr>
</tbody>
</table>`,
    );
    assert.equal(tableHtml(['what'], []), '<p>none</p>');
  });

  it('makes pairs of names and values', () => {
    assert.equal(pairsHtml([[HOSTILE, HOSTILE]]), `<dl>\n<dt>${ESCAPED}</dt><dd>${ESCAPED}</dd>\n</dl>`);
  });
});
