import { describe } from 'node:test';
import { MINIFIED, policyOf, SDNBRIDGE } from './samples.ts';
import { itAdds, itRejects, itReplaces, joined } from './support.ts';

describe('a list that is there', () => {
  itReplaces([
    [
      'with API 2 by its form alone',
      policyOf('{"Type":"OutBoundNAT","Settings":{"Exceptions":[]}}'),
      '[]}',
      `[${joined(',')}]}`,
    ],
  ]);
});

describe('where a policy has no list', () => {
  itAdds([
    [
      'it is added to the policy',
      '{\n  "type": "win-bridge",\n  "policies": [\n    {\n      "name": "EndpointPolicy",\n      "value": {\n        "Type": "OutBoundNAT"\n      }\n    }\n  ]\n}\n',
      '{\n  "type": "win-bridge",\n  "policies": [\n    {\n      "name": "EndpointPolicy",\n      "value": {\n        "Type": "OutBoundNAT",\n        "ExceptionList": [\n          "10.0.0.0/8",\n          "172.16.0.0/12"\n        ]\n      }\n    }\n  ]\n}\n',
    ],
    [
      'it is added to the settings that are there',
      policyOf('{"Type":"OutBoundNAT","Settings":{"VirtualIP":"10.0.0.1"}}'),
      policyOf(`{"Type":"OutBoundNAT","Settings":{"VirtualIP":"10.0.0.1","Exceptions":[${joined(',')}]}}`),
    ],
    [
      'it is added with settings for apiVersion 2',
      policyOf('{"Type":"OutBoundNAT"}').replace('{', '{"apiVersion":2,'),
      policyOf(`{"Type":"OutBoundNAT","Settings":{"Exceptions":[${joined(',')}]}}`).replace(
        '{',
        '{"apiVersion":2,',
      ),
    ],
    [
      'it is added to null settings',
      policyOf('{"Type":"OutBoundNAT","Settings":null}').replace('{', '{"apiVersion":2,'),
      policyOf(`{"Type":"OutBoundNAT","Settings":{"Exceptions":[${joined(',')}]}}`).replace(
        '{',
        '{"apiVersion":2,',
      ),
    ],
  ]);
});

describe('a list in a form that its plugin does not read is an error', () => {
  itRejects([
    [
      'a lower-case list',
      policyOf('{"Type":"OutBoundNAT","exceptionList":[]}'),
      '"exceptionList"',
      /HNS does not read/,
      /write "ExceptionList"/,
    ],
    [
      'both forms',
      policyOf('{"Type":"OutBoundNAT","ExceptionList":[],"Settings":{"Exceptions":[]}}'),
      '"Exceptions"',
      /both/,
      /keep the one/,
    ],
    [
      'the old form with apiVersion 2',
      `{"ApiVersion":2,${MINIFIED.slice(1)}`,
      '"ExceptionList"',
      /not read with apiVersion 2/,
      /"Settings"/,
    ],
    [
      'the old form in sdnbridge',
      SDNBRIDGE.replace(
        '"Settings": {\n                    "Exc',
        '"ExceptionList": [], "S": {\n                    "Exc',
      ),
      '"ExceptionList"',
      /not read by plugin "sdnbridge"/,
      /"Settings"/,
    ],
    [
      'the new form in azure-vnet',
      '{"type":"azure-vnet","AdditionalArgs":[{"Name":"EndpointPolicy","Value":{"Type":"OutBoundNAT","Settings":{"Exceptions":[]}}}]}',
      '"Exceptions"',
      /not read by plugin "azure-vnet"/,
      /"ExceptionList"/,
    ],
    [
      'ExceptionList in Settings',
      policyOf('{"Type":"OutBoundNAT","Settings":{"ExceptionList":[]}}'),
      '"ExceptionList"',
      /"ExceptionList" in "Settings"/,
      /"Exceptions"/,
    ],
    [
      'Exceptions without Settings',
      policyOf('{"Type":"OutBoundNAT","Exceptions":[]}'),
      '"Exceptions"',
      /outside of "Settings"/,
      /"Settings"/,
    ],
    [
      'settings that are a list',
      policyOf('{"Type":"OutBoundNAT","Settings":[7]}'),
      '[7]',
      /"Settings" must be/,
      /object/,
    ],
    [
      'an apiVersion that is text',
      '{"type": "win-bridge", "apiVersion": "2"}',
      '"2"',
      /whole number/,
      /1 or 2/,
    ],
  ]);
});
