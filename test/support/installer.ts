import assert from 'node:assert/strict';
import { collectionPath, objectPath, type Resource } from '../../src/cli/installation.ts';
import type { KubeObject } from '../../src/kube/types.ts';
import type { ApiClient } from './api-client.ts';

/** Creates what manifests describe. */
export interface Installer {
  /** One after the other; what is there already stays as it is. */
  create(...objects: readonly KubeObject[]): Promise<void>;
  /** The status of a GET. */
  statusOf(object: KubeObject): Promise<number>;
}

export function createInstaller(admin: ApiClient): Installer {
  return {
    async create(...objects) {
      for (const object of objects) {
        const path = collectionPath(resourceOf(object), object.metadata?.namespace);
        const { status, text } = await admin.send('POST', path, object);
        assert.ok(status === 201 || status === 409, text);
      }
    },
    async statusOf(object) {
      const { name = '', namespace } = object.metadata ?? {};
      return (await admin.send('GET', objectPath(resourceOf(object), name, namespace))).status;
    },
  };
}

/** Plurals that do not end in `s` alone. */
const PLURALS: Readonly<Record<string, string>> = { NetworkPolicy: 'networkpolicies' };

function resourceOf({ apiVersion = '', kind = '' }: KubeObject): Resource {
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  return { group, version, resource: PLURALS[kind] ?? `${kind.toLowerCase()}s` };
}
