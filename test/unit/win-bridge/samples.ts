/** As in the CNI plugins' sample for HNS API 1. */
export const WIN_BRIDGE = `{
  "name": "cbr0",
  "type": "win-bridge",
  "policies": [
    {
      "name": "EndpointPolicy",
      "value": {
        "Type": "OutBoundNAT",
        "ExceptionList": [
          "192.168.0.0/16",
          "11.0.0.0/8"
        ]
      }
    },
    {
      "name": "EndpointPolicy",
      "value": {
        "Type": "ROUTE",
        "NeedEncap": true
      }
    }
  ]
}
`;

/** Capitalized as OVN-Kubernetes writes it, indented with tabs. */
export const OVN = `{
\t"CniVersion":"0.2.0",
\t"Name":"OVNKubernetesHybridOverlayNetwork",
\t"Type":"win-overlay",
\t"apiVersion": 2,
\t"Policies":[
\t\t{
\t\t\t"Name": "EndpointPolicy",
\t\t\t"Value": {
\t\t\t\t"Type": "OutBoundNAT",
\t\t\t\t"Settings": {
\t\t\t\t\t"Exceptions": [
\t\t\t\t\t\t"172.30.0.0/16"
\t\t\t\t\t]
\t\t\t\t}
\t\t\t}
\t\t}
\t]
}`;

export const AZURE = `{
    "cniVersion" : "0.3.0",
    "plugins": [
        {
            "type": "azure-vnet",
            "AdditionalArgs": [
                {
                    "Name": "EndpointPolicy",
                    "Value": {
                        "Type": "OutBoundNAT",
                        "ExceptionList": [
                            "10.240.0.0/16"
                        ]
                    }
                }
            ]
        },
        {
            "type": "portmap",
            "capabilities": {"portMappings": true}
        }
    ]
}
`;

/** The comma stands before the item, as in Microsoft's dual-stack example. */
export const SDNBRIDGE = `{
    "type": "sdnbridge",
    "AdditionalArgs": [
        {
            "Name": "EndpointPolicy",
            "Value": {
                "Type":"ACL"
            }
        }
        ,{
            "Name": "EndpointPolicy",
            "Value": {
                "Type": "OutBoundNAT",
                "Settings": {
                    "Exceptions": [
                        "192.168.100.0/24"
                        ,"192.168.100.2/32"
                    ]
                }
            }
        }
    ]
}
`;

/** As the flannel scripts write it: a policy on one line. */
export const FLANNEL = `{
  "type": "flannel",
  "delegate": {
     "type": "win-bridge",
      "policies" : [
        {
          "Name" : "EndpointPolicy", "Value" : { "Type" : "OutBoundNAT", "ExceptionList": [ "10.244.0.0/16", "10.96.0.0/12" ] }
        },
        {
          "Name" : "EndpointPolicy", "Value" : { "Type" : "ROUTE", "NeedEncap" : true }
        }
      ]
    }
}`;

/** As PowerShell's ConvertTo-Json writes it. */
export const POWERSHELL = `\ufeff{
    "type":  "win-bridge",
    "policies":  [
                     {
                         "name":  "EndpointPolicy",
                         "value":  {
                                       "Type":  "OutBoundNAT",
                                       "ExceptionList":  [
                                                             "10.244.0.0/16"
                                                         ]
                                   }
                     }
                 ]
}
`.replaceAll('\n', '\r\n');

/** A win-bridge config with this OutBoundNAT policy. */
export function withNat(content: string): string {
  return policyOf(`{"Type":"OutBoundNAT",${content}}`);
}

/** A win-bridge config with this policy. */
export function policyOf(policy: string): string {
  return `{"type":"win-bridge","policies":[{"name":"EndpointPolicy","value":${policy}}]}`;
}

/** On one line without white space. */
export const MINIFIED = withNat('"ExceptionList":["10.96.0.0/12"]');
