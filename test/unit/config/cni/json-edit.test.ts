import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  AZURE,
  FLANNEL,
  lineWith,
  MINIFIED,
  POWERSHELL,
  policyOf,
  SDNBRIDGE,
  WIN_BRIDGE,
  WIN_OVERLAY,
} from './samples.ts';
import { changed, itAdds, itRejects, itReplaces, joined, TWO } from './support.ts';

describe('the list in the form it has', () => {
  itReplaces([
    [
      'of a file with a byte order mark and CRLF',
      POWERSHELL,
      `${' '.repeat(61)}"10.244.0.0/16"\r\n`,
      `${' '.repeat(61)}"10.0.0.0/8",\r\n${' '.repeat(61)}"172.16.0.0/12"\r\n`,
    ],
    ['of a minified file', MINIFIED, '["10.96.0.0/12"]', `[${joined(',')}]`],
    ['with one item on a line', lineWith('["10.96.0.0/12"]'), '["10.96.0.0/12"]', `[${joined(', ')}]`],
    ['that was empty on a line', lineWith('[ ]'), '[ ]', `[${joined(', ')}]`],
    ['that was empty on two lines', lineWith('[\n]'), '[\n]', `[\n  ${joined(',\n  ')}\n]`],
    ['that was null', lineWith('null'), 'null', `[${joined(', ')}]`],
    [
      'with several items on each of its lines',
      lineWith('[\n "1.0.0.0/8", "2.0.0.0/8",\n "3.0.0.0/8"\n]'),
      '"1.0.0.0/8", "2.0.0.0/8",\n "3.0.0.0/8"',
      joined(',\n '),
    ],
  ]);

  it('stays as it is written where it says the same', () => {
    const odd = lineWith(`[ "10.0.0.0/8"\t,\r\n\n "172.16.0.0\\/12"]\n`);
    assert.equal(changed(odd), odd);
    assert.notEqual(changed(odd, TWO.toReversed()), odd);
  });

  it('becomes empty in its own place', () => {
    for (const config of [WIN_BRIDGE, WIN_OVERLAY, AZURE, SDNBRIDGE, FLANNEL, POWERSHELL, MINIFIED]) {
      const empty = changed(config, []);
      assert.match(empty, /"Exception(?:List|s)": {0,2}\[\]/);
      assert.equal(changed(empty, []), empty);
    }
  });
});

describe('new text is written as its neighbours are', () => {
  itAdds([
    [
      'a policy is added as the others are written, over several lines',
      '{\n  "plugins": [{\n    "type": "azure-vnet",\n    "AdditionalArgs": [{\n      "Name" : "EndpointPolicy",\n      "Value" : {"Type": "ROUTE"}\n    }]\n  }]\n}\n',
      '{\n  "plugins": [{\n    "type": "azure-vnet",\n    "AdditionalArgs": [{\n      "Name" : "EndpointPolicy",\n      "Value" : {"Type": "ROUTE"}\n    }, {\n      "Name" : "EndpointPolicy",\n      "Value" : {\n        "Type" : "OutBoundNAT",\n        "ExceptionList" : [\n          "10.0.0.0/8",\n          "172.16.0.0/12"\n        ]\n      }\n    }]\n  }]\n}\n',
    ],
    [
      'a policy is added as the others are written, on one line',
      '{\n  "type": "win-bridge",\n  "Policies": [\n    {"Name": "EndpointPolicy", "Value": {"Type": "ROUTE"}}\n  ]\n}\n',
      `{\n  "type": "win-bridge",\n  "Policies": [\n    {"Name": "EndpointPolicy", "Value": {"Type": "ROUTE"}},\n    {"Name": "EndpointPolicy", "Value": {"Type": "OutBoundNAT", "ExceptionList": [${joined(', ')}]}}\n  ]\n}\n`,
    ],
    [
      'a policy is added behind the comma-first ones',
      '{\r\n  "type": "sdnbridge"\r\n, "AdditionalArgs": [\r\n    {"Name": "x"}\r\n  , {"Name": "y"}\r\n  ]\r\n}',
      `{\r\n  "type": "sdnbridge"\r\n, "AdditionalArgs": [\r\n    {"Name": "x"}\r\n  , {"Name": "y"}\r\n  , {"Name": "EndpointPolicy", "Value": {"Type": "OutBoundNAT", "Settings": {"Exceptions": [${joined(', ')}]}}}\r\n  ]\r\n}`,
    ],
    [
      'a policy is added to comma-first keys',
      '{\n  "name": "x"\n, "type": "sdnbridge"\n}',
      '{\n  "name": "x"\n, "type": "sdnbridge"\n, "AdditionalArgs": [\n  {\n    "Name": "EndpointPolicy",\n    "Value": {\n      "Type": "OutBoundNAT",\n      "Settings": {\n        "Exceptions": [\n          "10.0.0.0/8",\n          "172.16.0.0/12"\n        ]\n      }\n    }\n  }\n]\n}',
    ],
    [
      'an empty list of policies gets one',
      '{\n\t"type": "calico",\n\t"policies": []\n}',
      '{\n\t"type": "calico",\n\t"policies": [\n\t\t{\n\t\t\t"name": "EndpointPolicy",\n\t\t\t"value": {\n\t\t\t\t"Type": "OutBoundNAT",\n\t\t\t\t"ExceptionList": [\n\t\t\t\t\t"10.0.0.0/8",\n\t\t\t\t\t"172.16.0.0/12"\n\t\t\t\t]\n\t\t\t}\n\t\t}\n\t]\n}',
    ],
  ]);
});

describe('a list of something else is an error', () => {
  itRejects([
    [
      'a list that is text',
      policyOf('{"Type":"OutBoundNAT","ExceptionList":"x"}'),
      '"x"',
      /must be a list/,
      /list/,
    ],
    [
      'an item that is a number',
      policyOf('{"Type":"OutBoundNAT","ExceptionList":[7]}'),
      '7',
      /an item of/,
      /text/,
    ],
  ]);
});
