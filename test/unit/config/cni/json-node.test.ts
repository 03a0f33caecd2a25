import { describe } from 'node:test';
import { policyOf } from './samples.ts';
import { itAdds, itRejects, joined } from './support.ts';

describe('a key that Go takes for another of its object is an error', () => {
  itRejects([
    [
      'a key twice',
      '{"type": "win-bridge", "type": "win-bridge"}',
      '"type": "win-bridge"}',
      /"type" more than once/,
      /keep one/,
    ],
    [
      'a key twice in other case',
      '{"type": "win-bridge", "policies": [], "Policies": []}',
      '"Policies"',
      /"Policies" more than once/,
      /keep/,
    ],
    [
      'a key twice by the long s',
      '{"type": "win-bridge", "policies": [], "policie\u017f": []}',
      '"policie\u017f"',
      /more than once/,
      /keep/,
    ],
    [
      'a list twice',
      policyOf('{"Type":"OutBoundNAT","ExceptionList":[],"ExceptionList":[1]}'),
      '"ExceptionList":[1]',
      /more than once/,
      /keep/,
    ],
  ]);
});

describe('null is to Go as if the key were absent', () => {
  const delegate = '"delegate":{"type":null,"apiVersion":null,"policies":[{"name":"x","value":null}';
  const policy = `{"name":"EndpointPolicy","value":{"Type":"OutBoundNAT","ExceptionList":[${joined(',')}]}}`;
  itAdds([
    ['in a delegate', `{"type":"flannel",${delegate}]}}`, `{"type":"flannel",${delegate},${policy}]}}`],
  ]);
});
