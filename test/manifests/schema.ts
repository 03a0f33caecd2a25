import { PodMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor';
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule';
import { ValidatingAdmissionPolicy } from 'kubernetes-models/admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy';
import { ValidatingAdmissionPolicyBinding } from 'kubernetes-models/admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding';
import { DaemonSet } from 'kubernetes-models/apps/v1/DaemonSet';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { ClusterRole } from 'kubernetes-models/rbac.authorization.k8s.io/v1/ClusterRole';
import { ClusterRoleBinding } from 'kubernetes-models/rbac.authorization.k8s.io/v1/ClusterRoleBinding';
import { Role } from 'kubernetes-models/rbac.authorization.k8s.io/v1/Role';
import { RoleBinding } from 'kubernetes-models/rbac.authorization.k8s.io/v1/RoleBinding';
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap';
import { ServiceAccount } from 'kubernetes-models/v1/ServiceAccount';

const MODELS = [
  ClusterRole,
  ClusterRoleBinding,
  ConfigMap,
  DaemonSet,
  Deployment,
  PodMonitor,
  PrometheusRule,
  Role,
  RoleBinding,
  ServiceAccount,
  ValidatingAdmissionPolicy,
  ValidatingAdmissionPolicyBinding,
] as const;

/**
 * What Kubernetes' OpenAPI schema has against a document, and every field that it does not know: the API server drops
 * such a field or refuses the document, as kubectl asks it to.
 */
export function schemaProblems(document: unknown): readonly string[] {
  const { apiVersion, kind } = Object(document) as { apiVersion?: unknown; kind?: unknown };
  const model = MODELS.find((candidate) => candidate.apiVersion === apiVersion && candidate.kind === kind);
  if (model === undefined) return [`no schema of ${apiVersion} ${kind}`];
  const read = new Set<string>();
  return [...errors(model.prototype, watched(document, '', read)), ...unread(document, '', read)];
}

/** The constructor of a model would copy what it is given, and look at every field. */
function errors(prototype: { validate(): void }, value: unknown): readonly string[] {
  try {
    prototype.validate.call(value);
    return [];
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)];
  }
}

/**
 * The value, telling of every field that is looked at. The compiled schemas let unknown fields pass, but look at each
 * known one, and at all fields of a map: what is never looked at is unknown.
 */
function watched(value: unknown, path: string, read: Set<string>): unknown {
  if (typeof value !== 'object' || value === null) return value;
  return new Proxy(value, {
    get(target, key) {
      const child = Reflect.get(target, key);
      if (typeof key === 'symbol' || !Object.hasOwn(target, key)) return child;
      read.add(`${path}/${key}`);
      return watched(child, `${path}/${key}`, read);
    },
  });
}

function unread(value: unknown, path: string, read: ReadonlySet<string>): readonly string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, child]) => {
    const place = `${path}/${key}`;
    return read.has(place) ? unread(child, place, read) : [`${place}: unknown field`];
  });
}
