import { deepEqual } from '../kube/equality.ts';
import { matchesLabelSelector } from '../kube/webhooks.ts';
import { ApiError } from '../kube/status.ts';
import { definedResources } from './objects/custom-resources.ts';
import type { Registry } from './resources.ts';
import { CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES } from './roles.ts';
import { isSameResource, type Storage, type StoredChange } from './storage.ts';
import { itemsAt, getMetadata, objectAt, type ApiObject, type ObjectReader, type ResourceKey } from './types.ts';

const NAMESPACES: ResourceKey = { group: '', resource: 'namespaces' };
const SERVICE_ACCOUNTS: ResourceKey = { group: '', resource: 'serviceaccounts' };
const CONFIG_MAPS: ResourceKey = { group: '', resource: 'configmaps' };
const CLUSTER_ROLE_KEY: ResourceKey = { group: 'rbac.authorization.k8s.io', resource: 'clusterroles' };
const CLUSTER_ROLE_BINDING_KEY: ResourceKey = { ...CLUSTER_ROLE_KEY, resource: 'clusterrolebindings' };
const PRIORITY_CLASSES: ResourceKey = { group: 'scheduling.k8s.io', resource: 'priorityclasses' };
const DEFINITIONS: ResourceKey = { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' };

/** Writes of the server itself, as a member of `system:masters`. All writes are admitted and reject with an ApiError. */
export interface Writer {
  create(resource: ResourceKey, object: ApiObject, options?: { readonly fieldManager?: string }): Promise<ApiObject>;
  update(resource: ResourceKey, object: ApiObject, subresource?: string): Promise<ApiObject>;
  remove(resource: ResourceKey, namespace: string, name: string): Promise<ApiObject>;
}

/** A control loop that runs in the development cluster. */
interface Controller {
  readonly name: string;
  /** Returns the key to reconcile after a change; `undefined` if the change does not concern the controller. */
  keyOf(change: StoredChange): string | undefined;
  /** Reconciles a key. If it rejects, the key is retried. */
  reconcile(key: string): Promise<void>;
}

interface ControllerContext {
  readonly reader: ObjectReader;
  readonly registry: Registry;
  readonly writer: Writer;
}

export interface ControllersOptions {
  /** The CA certificate of the API server, in PEM, for the ConfigMap `kube-root-ca.crt` of each namespace. */
  readonly rootCertificate?: string;
  /** Receives the errors of reconciliations, which are retried. */
  readonly onError?: (error: unknown, controller: string, key: string) => void;
}

export interface Controllers {
  /** Resolves when all queued keys are reconciled. Keys that wait for a retry are not included. */
  idle(): Promise<void>;
  stop(): void;
}

/** Creates the default objects of a cluster, and starts the controllers. */
export async function startControllers(
  { storage, registry, writer }: { readonly storage: Storage; readonly registry: Registry; readonly writer: Writer },
  { rootCertificate, onError }: ControllersOptions = {},
): Promise<Controllers> {
  const context: ControllerContext = { reader: storage, registry, writer };
  const controllers = [
    namespaceContent(context, rootCertificate),
    namespaceDeletion(context),
    roleAggregation(context),
  ];
  const queue = createQueue(onError ?? (() => undefined));
  const unsubscribe = storage.subscribe((change) => {
    for (const controller of controllers) {
      const key = controller.keyOf(change);
      if (key !== undefined) queue.add(controller, key);
    }
  });
  for (const role of CLUSTER_ROLES) await createMissing(context, CLUSTER_ROLE_KEY, role);
  for (const binding of CLUSTER_ROLE_BINDINGS) await createMissing(context, CLUSTER_ROLE_BINDING_KEY, binding);
  for (const [name, value] of Object.entries(SYSTEM_PRIORITIES)) {
    const priorityClass = { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', metadata: { name }, value };
    await createMissing(context, PRIORITY_CLASSES, priorityClass);
  }
  for (const name of ['default', 'kube-node-lease', 'kube-public', 'kube-system']) {
    await createMissing(context, NAMESPACES, { apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
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

const SYSTEM_PRIORITIES = { 'system-cluster-critical': 2_000_000_000, 'system-node-critical': 2_000_001_000 };

const RETRY_MS = 50;

/** Creates a queue that reconciles one key at a time. Failed keys are retried after a pause. */
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
    // All subscribers receive a change before it is reconciled.
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

/** Creates an object unless it exists. */
async function createMissing({ reader, writer }: ControllerContext, resource: ResourceKey, object: ApiObject) {
  const { namespace = '', name = '' } = getMetadata(object);
  if (!reader.get(resource, namespace, name)) await ignoreStatus(409, writer.create(resource, object));
}

/** Deletes an object, which can be gone already. */
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

/** Creates the default service account of each namespace and the ConfigMap with the CA certificate. */
function namespaceContent(context: ControllerContext, rootCertificate: string | undefined): Controller {
  return {
    name: 'namespace-content',
    keyOf({ type, resource, object }) {
      const { name, namespace } = getMetadata(object);
      if (isSameResource(resource, NAMESPACES)) return type === 'DELETED' ? undefined : name;
      const isContent =
        (isSameResource(resource, SERVICE_ACCOUNTS) && name === 'default') ||
        (isSameResource(resource, CONFIG_MAPS) && name === ROOT_CA);
      return type === 'DELETED' && isContent ? namespace : undefined;
    },
    async reconcile(namespace) {
      const stored = context.reader.get(NAMESPACES, '', namespace);
      if (!stored || isDeleting(stored)) return;
      const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace } };
      await createMissing(context, SERVICE_ACCOUNTS, account);
      if (rootCertificate === undefined) return;
      const metadata = { name: ROOT_CA, namespace };
      const configMap = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { 'ca.crt': rootCertificate } };
      await createMissing(context, CONFIG_MAPS, configMap);
    },
  };
}

/** Deletes the content of namespaces that are being deleted, and then removes their finalizer. */
function namespaceDeletion(context: ControllerContext): Controller {
  const { reader, registry, writer } = context;
  return {
    name: 'namespace-deletion',
    keyOf({ type, resource, object }) {
      const { name, namespace } = getMetadata(object);
      if (isSameResource(resource, NAMESPACES)) return type === 'DELETED' ? undefined : name;
      return type === 'DELETED' ? namespace : undefined;
    },
    async reconcile(name) {
      const namespace = reader.get(NAMESPACES, '', name);
      if (!namespace || !isDeleting(namespace)) return;
      const resources = registry.list().filter(({ namespaced, verbs }) => namespaced && verbs.includes('delete'));
      for (const resource of resources) {
        for (const object of reader.list(resource, name)) {
          if (!isDeleting(object)) await removeExisting(context, resource, object);
        }
      }
      // The removal of an object with finalizers enqueues the namespace again.
      if (resources.some((resource) => reader.list(resource, name).length > 0)) return;
      const spec = { ...objectAt(namespace, 'spec'), finalizers: [] };
      await writer.update(NAMESPACES, { ...namespace, spec }, 'finalize');
    },
  };
}

/**
 * Writes the rules of aggregated cluster roles.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/rbac/#aggregated-clusterroles
 */
function roleAggregation({ reader, writer }: ControllerContext): Controller {
  return {
    name: 'role-aggregation',
    keyOf: ({ resource }) => (isSameResource(resource, CLUSTER_ROLE_KEY) ? '' : undefined),
    async reconcile() {
      // An aggregated role can be aggregated again: each write enqueues another reconciliation.
      for (const role of reader.list(CLUSTER_ROLE_KEY)) {
        const rules = aggregatedRules(role, reader.list(CLUSTER_ROLE_KEY));
        const isCurrent = rules === undefined || deepEqual(rules, itemsAt(role, 'rules'));
        if (!isCurrent) await writer.update(CLUSTER_ROLE_KEY, { ...role, rules });
      }
    },
  };
}

/** Returns the distinct rules of the roles that a role aggregates; `undefined` for other roles. */
function aggregatedRules(role: ApiObject, roles: readonly ApiObject[]): readonly unknown[] | undefined {
  const selectors = itemsAt(role, 'aggregationRule', 'clusterRoleSelectors');
  if (selectors.length === 0) return undefined;
  const sources = selectors.flatMap((selector) =>
    roles.filter((other) => other !== role && matchesLabelSelector(selector, getMetadata(other).labels)),
  );
  const rules = sources.flatMap((source) => itemsAt(source, 'rules'));
  return rules.filter((rule, index) => rules.findIndex((other) => deepEqual(other, rule)) === index);
}

/** Serves the resources of CustomResourceDefinitions while they are stored. Their objects are removed with them. */
export function serveDefinitions(storage: Storage, registry: Registry): void {
  storage.subscribe(({ type, resource, object }) => {
    if (!isSameResource(resource, DEFINITIONS)) return;
    const resources = definedResources(object);
    const isDeleted = type === 'DELETED';
    if (isDeleted) for (const info of resources) for (const one of storage.list(info)) storage.remove(info, one);
    registry.define(getMetadata(object).name ?? '', isDeleted ? [] : resources);
  });
}
