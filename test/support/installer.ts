import assert from 'node:assert/strict';
import { objectPath, resourcePath } from '../../src/kube/resources.ts';
import type { GroupVersionResource, KubeObject } from '../../src/kube/types.ts';
import type { ApiClient } from './api-client.ts';

/** Creates objects in a cluster. */
export interface Installer {
  /** Creates objects in order. Existing objects stay unchanged. */
  create(...objects: readonly KubeObject[]): Promise<void>;
  /** Returns the HTTP status of a GET request. */
  getStatus(object: KubeObject): Promise<number>;
}

export function createInstaller(admin: ApiClient): Installer {
  return {
    async create(...objects) {
      for (const object of objects) {
        const path = resourcePath(getResource(object), object.metadata?.namespace);
        const { status, text } = await admin.send('POST', path, object);
        assert.ok(status === 201 || status === 409, text);
      }
    },
    async getStatus(object) {
      const { name = '', namespace } = object.metadata ?? {};
      return (await admin.send('GET', objectPath(getResource(object), name, namespace))).status;
    },
  };
}

/** Resource names that are irregular plurals of their kind. */
const PLURALS: Readonly<Record<string, string>> = {
  NetworkPolicy: 'networkpolicies',
  ValidatingAdmissionPolicy: 'validatingadmissionpolicies',
};

function getResource({ apiVersion = '', kind = '' }: KubeObject): GroupVersionResource {
  const [version = '', group = ''] = apiVersion.split('/').toReversed();
  return { group, version, resource: PLURALS[kind] ?? `${kind.toLowerCase()}s` };
}
