import assert from 'node:assert/strict';
import { it } from 'node:test';
import { logAddresses } from '../../../lib/agent/log-addresses.ts';
import { compilePolicy } from '../../../lib/policy/policy.ts';
import { capturedLog } from '../../lab/log.ts';
import { mergedOf } from '../config/support.ts';

it('what the log says of the addresses of the node changes as they do', () => {
  const { log, lines } = capturedLog();
  const said = () => lines.splice(0).map(({ level, msg }) => `${level} ${msg}`);
  const item = { destination: '0.0.0.0/0', address: '198.51.100.0/24' };
  const config = mergedOf({ a: JSON.stringify({ masqueradeAddresses: [item] }) });
  const on = (...octets: readonly number[]) => [
    compilePolicy(
      config,
      'IPv4',
      octets.map((octet) => ({ family: 'IPv4', value: 0xc6336400n + BigInt(octet) })),
    ),
  ];
  const none = /^40 a:1:25: this node has no address in 198\.51\.100\.0\/24: /;

  logAddresses(log, [], on(7));
  assert.deepEqual(said(), []);
  logAddresses(log, on(7), on());
  assert.match(said().join(), none);
  logAddresses(log, on(), on());
  assert.deepEqual(said(), []);
  logAddresses(log, on(), on(8, 7));
  assert.match(said().join(), /^40 a:1:25: .* several .*: 198\.51\.100\.7, 198\.51\.100\.8; /);
  logAddresses(log, on(8, 7), on(8));
  assert.match(said().join(), /^30 this node's address in 198\.51\.100\.0\/24 is 198\.51\.100\.8$/);
  logAddresses(log, [], on());
  assert.match(said().join(), none);
  const [best] = on(8);
  const ranked = [7, 8].map(
    (octet) => ({ family: 'IPv4', value: 0xc6336400n + BigInt(octet), rank: 8 - octet }) as const,
  );
  logAddresses(log, best ? [best] : [], [compilePolicy(config, 'IPv4', ranked)]);
  assert.deepEqual(said(), []);
});
