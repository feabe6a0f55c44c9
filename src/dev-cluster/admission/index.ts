import { setTimeout as sleep } from 'node:timers/promises';
import { isMirrorPod, mountsToken, mountToken } from '../../kube/controller-pod.ts';
import { RESOURCES } from '../../kube/resources.ts';
import { ApiError, forbidden, notFound, type Status } from '../../kube/status.ts';
import { quote } from '../../kube/text.ts';
import type { Attributes, RequestContext } from '../attributes.ts';
import { randomSuffix } from '../generated-name.ts';
import { type ApiObject, getMetadata, itemsAt, numberAt, nestedObject, type ObjectReader, textAt } from '../types.ts';
import { type PolicyOptions, validateWithPolicies } from './policies.ts';
import { createMutatingWebhooks, validateWithWebhooks, type WebhookOptions } from './webhooks.ts';

/**
 * The admission chain, which consists of built-in plugins, followed by policies and webhooks. Both functions reject
 * with an ApiError to deny the request.
 */
export interface Admission {
  /** Returns the object as changed by plugins and mutating webhooks. Does not modify the given object. */
  mutate(attributes: Attributes, context: RequestContext): Promise<ApiObject | undefined>;
  validate(attributes: Attributes, context: RequestContext): Promise<void>;
}

export function createAdmission(options: WebhookOptions & PolicyOptions): Admission {
  const plugins = createPlugins(options.reader, randomSuffix);
  return {
    async mutate(attributes, context) {
      const copy = attributes.object && { object: structuredClone(attributes.object) };
      const webhooks = createMutatingWebhooks(options, context);
      const runRound = async (current: Attributes): Promise<Attributes> => {
        for (const { admit } of plugins) {
          const denial = await admit?.(current);
          if (denial) throw new ApiError(denial);
        }
        return webhooks.run(current);
      };
      const first = await runRound({ ...attributes, ...copy });
      // Runs the plugins again for parts that webhooks have added, such as a container without the token volume.
      return (webhooks.changed() ? await runRound(first) : first).object;
    },
    async validate(attributes, context) {
      for (const { validate } of plugins) {
        const denial = validate?.(attributes);
        if (denial) throw new ApiError(denial);
      }
      validateWithPolicies(options, attributes, context);
      await validateWithWebhooks(options, attributes, context);
    },
  };
}

/** A built-in admission plugin. Its functions return a Status to deny the request. */
interface Plugin {
  /** May change `attributes.object` in place. */
  readonly admit?: (attributes: Attributes) => Status | undefined | Promise<Status | undefined>;
  readonly validate?: (attributes: Attributes) => Status | undefined;
}

/** Creates the plugins in the order in which they run. `suffix` returns the random part of a volume name. */
export function createPlugins(reader: ObjectReader, suffix: () => string): readonly Plugin[] {
  return [namespaceLifecycle(reader), serviceAccounts(reader, suffix), podDefaults(reader)];
}

const PROTECTED_NAMESPACES = new Set(['default', 'kube-system', 'kube-public']);

/**
 * Denies writes to missing namespaces, creation in terminating namespaces, and deletion of protected namespaces.
 * @see https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/namespace/lifecycle/admission.go
 */
function namespaceLifecycle(reader: ObjectReader): Plugin {
  return {
    admit(attributes) {
      const { operation, name, namespace, resource } = attributes;
      if (isOn(attributes, 'namespaces')) {
        const isProtected = operation === 'DELETE' && PROTECTED_NAMESPACES.has(name);
        return isProtected ? forbidden(resource, name, 'this namespace may not be deleted') : undefined;
      }
      const writes = operation === 'CREATE' || operation === 'UPDATE';
      if (!writes || namespace === '') return undefined;
      const stored = reader.get(RESOURCES.Namespace, '', namespace);
      if (!stored) return notFound(RESOURCES.Namespace, namespace);
      const isTerminating = textAt(stored, 'status', 'phase') === 'Terminating';
      return operation === 'CREATE' && isTerminating ? terminating(attributes) : undefined;
    },
  };
}

function terminating(attributes: Attributes): Status {
  const { namespace } = attributes;
  const cause = `unable to create new content in namespace ${namespace} because it is being terminated`;
  const status = deny(attributes, cause);
  const message = `namespace ${namespace} is being terminated`;
  const causes = [{ reason: 'NamespaceTerminating', message, field: 'metadata.namespace' }];
  return { ...status, details: { ...status.details, causes } };
}

const DEFAULT_ACCOUNT = 'default';

/**
 * Number of attempts, and the delay between them in milliseconds, to wait for the controller that creates the default
 * service account in a new namespace.
 */
const ATTEMPTS = 10;
const PAUSE_MS = 20;

/**
 * Sets a pod's service account, mounts its token and copies its pull secrets. Denies pods whose service account does
 * not exist.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/serviceaccount/admission.go
 */
function serviceAccounts(reader: ObjectReader, suffix: () => string): Plugin {
  const findAccount = ({ namespace }: Attributes, pod: ApiObject): ApiObject | undefined =>
    reader.get(RESOURCES.ServiceAccount, namespace, textAt(pod, 'spec', 'serviceAccountName'));
  return {
    async admit(attributes) {
      const pod = newPod(attributes);
      if (!pod || isMirrorPod(pod)) return undefined;
      const spec = nestedObject(pod, 'spec') as Record<string, unknown>;
      const name = textAt(spec, 'serviceAccountName') || DEFAULT_ACCOUNT;
      Object.assign(spec, { serviceAccountName: name, serviceAccount: name });
      let account = findAccount(attributes, pod);
      for (let attempt = 1; !account && name === DEFAULT_ACCOUNT && attempt < ATTEMPTS; attempt++) {
        await sleep(PAUSE_MS);
        account = findAccount(attributes, pod);
      }
      if (!account) return unknownAccount(attributes, name);
      if (mountsToken(spec, account)) mountToken(spec, (prefix) => `${prefix}${suffix()}`);
      const secrets = itemsAt(account, 'imagePullSecrets').map((secret) => ({ name: secret['name'] }));
      if (itemsAt(spec, 'imagePullSecrets').length === 0 && secrets.length > 0) spec['imagePullSecrets'] = secrets;
      return undefined;
    },
    validate(attributes) {
      const pod = newPod(attributes);
      if (!pod || isMirrorPod(pod) || findAccount(attributes, pod)) return undefined;
      return unknownAccount(attributes, textAt(pod, 'spec', 'serviceAccountName'));
    },
  };
}

function unknownAccount(attributes: Attributes, name: string): Status {
  const path = `${attributes.namespace}/${name}`;
  return deny(attributes, `error looking up service account ${path}: serviceaccount ${quote(name)} not found`);
}

const PRIORITY_CLASSES = { group: 'scheduling.k8s.io', resource: 'priorityclasses' };
const TAINTS = ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable'];

/** Sets the priority of a pod from its PriorityClass, and adds the tolerations that every pod receives. */
function podDefaults(reader: ObjectReader): Plugin {
  return {
    admit(attributes) {
      const pod = newPod(attributes);
      if (!pod) return undefined;
      const spec = nestedObject(pod, 'spec') as Record<string, unknown>;
      const name = textAt(spec, 'priorityClassName');
      const priorityClass = reader.get(PRIORITY_CLASSES, '', name);
      if (name !== '' && !priorityClass) return deny(attributes, `no PriorityClass with name ${name} was found`);
      spec['priority'] = numberAt(priorityClass, 'value');
      spec['preemptionPolicy'] = textAt(priorityClass, 'preemptionPolicy') || 'PreemptLowerPriority';
      const tolerations = itemsAt(spec, 'tolerations');
      const missing = TAINTS.filter((taint) => !tolerations.some(({ key }) => key === taint || (key ?? '') === ''));
      const added = missing.map((key) => ({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 }));
      if (added.length > 0) spec['tolerations'] = [...tolerations, ...added];
      return undefined;
    },
  };
}

/** Returns a 403 Status with the object's name, or with its `generateName` if it has no name yet. */
function deny(attributes: Attributes, cause: string): Status {
  const { name = '', generateName = '' } = getMetadata(attributes.object);
  return forbidden(attributes.resource, attributes.name || name || generateName || 'Unknown', cause);
}

function isOn({ resource }: Attributes, name: string): boolean {
  return resource.group === '' && resource.resource === name;
}

function newPod(attributes: Attributes): ApiObject | undefined {
  const isCreated = attributes.operation === 'CREATE' && attributes.subresource === '';
  return isCreated && isOn(attributes, 'pods') ? attributes.object : undefined;
}
