import { randomUUID } from 'node:crypto';
import { createStore, type Store } from '../cluster/store.ts';
import type { Cluster } from '../cluster/cluster.ts';
import { accessFromStore, type Access } from '../cluster/access.ts';
import { createAdmission, type CallWebhook } from './admission/index.ts';
import { createApi, type Api } from './api.ts';
import { startChores, type Chores, type ChoresOptions } from './chores/index.ts';
import type { Core } from './core.ts';
import { followDefinitions } from './definitions.ts';
import { decodeValue, loadSchemas, type Schemas } from './fields/index.ts';
import { randomSuffix } from './metadata.ts';
import { mirror } from './mirror.ts';
import { strategyOf } from './objects/index.ts';
import { createPort } from './port.ts';
import { createRegistry, type Registry } from './registry.ts';
import { createSend } from './requests.ts';
import { builtInResources } from './resources.ts';
import { createStorage, type Storage } from './storage.ts';
import { subresourceOf } from './subresources.ts';
import type { ApiObject, Writer } from './types.ts';
import { createWriter } from './writer.ts';

export interface DevClusterOptions {
  clock(): Date;
  /** Carries reviews to webhooks: over HTTPS, or in process. */
  readonly call: CallWebhook;
}

/** A Kubernetes cluster in memory. It is empty until it is started. */
export interface DevCluster extends Cluster {
  readonly store: Store;
  readonly api: Api;
  readonly access: Access;
  readonly storage: Storage;
  readonly registry: Registry;
  readonly schemas: Schemas;
  readonly writer: Writer;
  clock(): Date;
  /** Fills the cluster with what every cluster has and looks after it, until it is stopped. */
  start(options?: ChoresOptions): Promise<void>;
  /** Resolves once nothing waits to be looked after. */
  idle(): Promise<void>;
  stop(): void;
}

/** Makes an empty cluster. */
export function createDevCluster({ clock, call }: DevClusterOptions): DevCluster {
  const storage = createStorage();
  const registry = createRegistry(builtInResources(strategyOf));
  const schemas = loadSchemas();
  const store = createStore();
  mirror(storage, store);
  followDefinitions(storage, registry, schemas);
  const access = accessFromStore(store);
  const admission = createAdmission({
    reader: storage,
    versionsOf: ({ group, resource }) =>
      registry.list().filter((info) => info.group === group && info.resource === resource),
    decode: (value, info, subresource) => {
      const type = schemas.typeOf(subresourceOf(info, subresource)?.kind ?? info);
      return type ? decodeValue(value, type) : { object: value as ApiObject };
    },
    call,
    uid: randomUUID,
    suffix: randomSuffix,
  });
  const core: Core = { storage, registry, schemas, admission, access, clock };
  const api = createApi(core);
  const send = createSend(api, registry);
  const port = createPort({ send, access, store, clock });
  const writer = createWriter(send);
  let chores: Chores | undefined;
  return {
    ...port,
    api,
    access,
    storage,
    registry,
    schemas,
    writer,
    clock,
    async start(options) {
      chores = await startChores({ storage, registry, writer }, options);
    },
    idle: () => chores?.idle() ?? Promise.resolve(),
    stop: () => chores?.stop(),
  };
}
