import { deepEqual } from '../kube/equality.ts';
import { matchesLabelSelector } from '../kube/label-selector.ts';
import { RESOURCES } from '../kube/resources.ts';
import { ApiError } from '../kube/status.ts';
import defaultObjects from './default-objects.json' with { type: 'json' };
import { definedResources } from './objects/custom-resources.ts';
import type { Registry } from './resources.ts';
import { isSameResource, type Storage, type StoredChange } from './storage.ts';
import { type ApiObject, getMetadata, itemsAt, nestedObject, type ResourceKey } from './types.ts';

const DEFINITIONS: ResourceKey = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };

/**
 * Writes of the server itself, as a member of `system:masters`. All writes go through admission, and reject with an
 * ApiError.
 */
export interface Writer {
  create(resource: ResourceKey, object: ApiObject, options?: { readonly fieldManager?: string }): Promise<ApiObject>;
  update(resource: ResourceKey, object: ApiObject, subresource?: string): Promise<ApiObject>;
  remove(resource: ResourceKey, namespace: string, name: string): Promise<ApiObject>;
}

/** A control loop in the development cluster. */
interface Controller {
  readonly name: string;
  /** Returns the key to reconcile after a change, or `undefined` if the change does not affect the controller. */
  changedKey(change: StoredChange): string | undefined;
  /** Reconciles a key. If this rejects, the key is retried. */
  reconcile(key: string): Promise<void>;
}

interface ControllerContext {
  readonly storage: Storage;
  readonly registry: Registry;
  readonly writer: Writer;
}

export interface ControllersOptions {
  /** CA certificate of the API server in PEM, for the `kube-root-ca.crt` ConfigMap in each namespace. */
  readonly rootCertificate?: string;
  /** Called with errors of reconciliations, whose keys are retried. */
  readonly onError?: (error: unknown, controller: string, key: string) => void;
}

export interface Controllers {
  /** Resolves once all queued keys have been reconciled. Ignores keys that are waiting for a retry. */
  idle(): Promise<void>;
  stop(): void;
}

/**
 * Creates a cluster's default objects, and starts the controllers. The default cluster roles contain rules only for
 * resources that the development cluster serves.
 * @see https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
 */
export async function startClusterControllers(
  context: ControllerContext,
  { rootCertificate, onError }: ControllersOptions = {},
): Promise<Controllers> {
  const { storage, registry } = context;
  const controllers = [
    namespaceContent(context, rootCertificate),
    namespaceDeletion(context),
    roleAggregation(context),
  ];
  const queue = createQueue(onError ?? (() => undefined));
  const unsubscribe = storage.subscribe((change) => {
    for (const controller of controllers) {
      const key = controller.changedKey(change);
      if (key !== undefined) queue.add(controller, key);
    }
  });
  for (const object of defaultObjects) {
    const resource = registry.list().find(({ kind }) => kind === object.kind);
    if (resource) await createMissing(context, resource, object);
  }
  await queue.idle();
  return {
    idle: () => queue.idle(),
    stop() {
      unsubscribe();
      queue.stop();
    },
  };
}

const RETRY_MS = 50;

/** Creates a queue that reconciles one key at a time. Failed keys are retried after a delay. */
function createQueue(onError: NonNullable<ControllersOptions['onError']>) {
  const pending = new Map<string, () => Promise<void>>();
  let running: Promise<void> | undefined;
  let stopped = false;

  const add = (controller: Controller, key: string): void => {
    const id = `${controller.name} ${key}`;
    if (stopped) return;
    pending.set(id, async () => {
      try {
        await controller.reconcile(key);
      } catch (error) {
        onError(error, controller.name, key);
        setTimeout(() => add(controller, key), RETRY_MS).unref();
      }
    });
    running ??= run();
  };
  const run = async (): Promise<void> => {
    // Reconciles a change only after all subscribers have received it.
    await Promise.resolve();
    for (let next = pending.entries().next(); !next.done && !stopped; next = pending.entries().next()) {
      const [id, reconcile] = next.value;
      pending.delete(id);
      await reconcile();
    }
    running = undefined;
  };
  return {
    add,
    async idle() {
      while (running) await running;
    },
    stop: () => void (stopped = true),
  };
}

/** Creates an object if it does not exist. */
async function createMissing({ storage, writer }: ControllerContext, resource: ResourceKey, object: ApiObject) {
  const { namespace = '', name = '' } = getMetadata(object);
  if (!storage.get(resource, namespace, name)) await ignoreStatus(409, writer.create(resource, object));
}

/** Deletes an object, if it has not been deleted already. */
async function removeExisting({ writer }: ControllerContext, resource: ResourceKey, object: ApiObject) {
  const { namespace = '', name = '' } = getMetadata(object);
  await ignoreStatus(404, writer.remove(resource, namespace, name));
}

async function ignoreStatus(code: number, request: Promise<unknown>): Promise<void> {
  try {
    await request;
  } catch (error) {
    if (!(error instanceof ApiError && error.status.code === code)) throw error;
  }
}

function isDeleting(object: ApiObject): boolean {
  return getMetadata(object).deletionTimestamp !== undefined;
}

const ROOT_CA = 'kube-root-ca.crt';

/** Creates each namespace's default service account and the ConfigMap with the CA certificate. */
function namespaceContent(context: ControllerContext, rootCertificate: string | undefined): Controller {
  return {
    name: 'namespace-content',
    changedKey({ type, resource, object }) {
      const { name, namespace } = getMetadata(object);
      if (isSameResource(resource, RESOURCES.Namespace)) return type === 'DELETED' ? undefined : name;
      const isContent =
        (isSameResource(resource, RESOURCES.ServiceAccount) && name === 'default') ||
        (isSameResource(resource, RESOURCES.ConfigMap) && name === ROOT_CA);
      return type === 'DELETED' && isContent ? namespace : undefined;
    },
    async reconcile(namespace) {
      const stored = context.storage.get(RESOURCES.Namespace, '', namespace);
      if (!stored || isDeleting(stored)) return;
      const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace } };
      await createMissing(context, RESOURCES.ServiceAccount, account);
      if (rootCertificate === undefined) return;
      const metadata = { name: ROOT_CA, namespace };
      const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'ca.crt': rootCertificate } };
      await createMissing(context, RESOURCES.ConfigMap, configMap);
    },
  };
}

/** Deletes the content of terminating namespaces, and then removes their finalizer. */
function namespaceDeletion(context: ControllerContext): Controller {
  const { storage, registry, writer } = context;
  return {
    name: 'namespace-deletion',
    changedKey({ type, resource, object }) {
      const { name, namespace } = getMetadata(object);
      if (isSameResource(resource, RESOURCES.Namespace)) return type === 'DELETED' ? undefined : name;
      return type === 'DELETED' ? namespace : undefined;
    },
    async reconcile(name) {
      const namespace = storage.get(RESOURCES.Namespace, '', name);
      if (!namespace || !isDeleting(namespace)) return;
      const resources = registry.list().filter(({ namespaced, verbs }) => namespaced && verbs.includes('delete'));
      for (const resource of resources) {
        for (const object of storage.list(resource, name)) {
          if (!isDeleting(object)) await removeExisting(context, resource, object);
        }
      }
      // Waits until all objects are removed. The removal of an object with finalizers enqueues the namespace again.
      if (resources.some((resource) => storage.list(resource, name).length > 0)) return;
      const spec = { ...nestedObject(namespace, 'spec'), finalizers: [] };
      await writer.update(RESOURCES.Namespace, { ...namespace, spec }, 'finalize');
    },
  };
}

/**
 * Writes the rules of aggregated ClusterRoles.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
 */
function roleAggregation({ storage, writer }: ControllerContext): Controller {
  return {
    name: 'role-aggregation',
    changedKey: ({ resource }) => (isSameResource(resource, RESOURCES.ClusterRole) ? '' : undefined),
    async reconcile() {
      // An aggregated role can itself be aggregated, which works because each write triggers another reconciliation.
      for (const role of storage.list(RESOURCES.ClusterRole)) {
        const rules = aggregatedRules(role, storage.list(RESOURCES.ClusterRole));
        const isCurrent = rules === undefined || deepEqual(rules, itemsAt(role, 'rules'));
        if (!isCurrent) await writer.update(RESOURCES.ClusterRole, { ...role, rules });
      }
    },
  };
}

/** Returns the distinct rules of the roles that a role aggregates, or `undefined` for other roles. */
function aggregatedRules(role: ApiObject, roles: readonly ApiObject[]): readonly unknown[] | undefined {
  const selectors = itemsAt(role, 'aggregationRule', 'clusterRoleSelectors');
  if (selectors.length === 0) return undefined;
  const sources = selectors.flatMap((selector) =>
    roles.filter((other) => other !== role && matchesLabelSelector(selector, getMetadata(other).labels)),
  );
  const rules = sources.flatMap((source) => itemsAt(source, 'rules'));
  return rules.filter((rule, index) => rules.findIndex((other) => deepEqual(other, rule)) === index);
}

/** Serves the resources of stored CRDs. Removes their objects together with the CRD. */
export function serveDefinitions(storage: Storage, registry: Registry): void {
  storage.subscribe(({ type, resource, object }) => {
    if (!isSameResource(resource, DEFINITIONS)) return;
    const resources = definedResources(object);
    const isDeleted = type === 'DELETED';
    if (isDeleted) for (const info of resources) for (const object of storage.list(info)) storage.remove(info, object);
    registry.define(getMetadata(object).name ?? '', isDeleted ? [] : resources);
  });
}
