import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { formatOrigin } from '../../../lib/config/origin.ts';

describe('an origin', () => {
  it('reads as file:line:column', () => {
    assert.equal(formatOrigin({ kind: 'file', source: 'ip-masq-a', line: 3, column: 5 }), 'ip-masq-a:3:5');
  });

  it('names the document where it is built in', () => {
    assert.equal(formatOrigin({ kind: 'built-in', reason: 'RFC 1918' }), 'built in (RFC 1918)');
  });

  it('cannot forge a line by the name of its source', () => {
    const forged = formatOrigin({ kind: 'file', source: 'ip-masq-a\nERROR: \u001b[2K', line: 1, column: 1 });
    assert.equal(forged, 'ip-masq-a\\x0aERROR: \\x1b[2K:1:1');
  });
});
