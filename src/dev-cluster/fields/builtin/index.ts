import { admissionregistration } from './admissionregistration.ts';
import { apiextensions } from './apiextensions.ts';
import { apps } from './apps.ts';
import { authentication } from './authentication.ts';
import { authorization } from './authorization.ts';
import { autoscaling } from './autoscaling.ts';
import { batch } from './batch.ts';
import { coordination } from './coordination.ts';
import { core } from './core.ts';
import { discovery } from './discovery.ts';
import { events } from './events.ts';
import { meta } from './meta.ts';
import { networking } from './networking.ts';
import { node } from './node.ts';
import { policy } from './policy.ts';
import { rbac } from './rbac.ts';
import { scheduling } from './scheduling.ts';
import { storage } from './storage.ts';

/** The types of one API version, in the notation that `../notation.ts` describes. */
export interface TypePackage {
  /** How other packages refer to it. */
  readonly path: string;
  readonly group: string;
  readonly version: string;
  /** In front of the type's name in OpenAPI documents. */
  readonly openApiPrefix: string;
  readonly text: string;
}

const api = (name: string, group: string, text: string): TypePackage => ({
  path: `${name}/v1`,
  group,
  version: 'v1',
  openApiPrefix: `io.k8s.api.${name}.v1`,
  text,
});

/** Every built-in type. */
export const PACKAGES: readonly TypePackage[] = [
  {
    path: 'meta/v1',
    group: 'meta.k8s.io',
    version: 'v1',
    openApiPrefix: 'io.k8s.apimachinery.pkg.apis.meta.v1',
    text: meta,
  },
  api('core', '', core),
  api('apps', 'apps', apps),
  api('batch', 'batch', batch),
  api('rbac', 'rbac.authorization.k8s.io', rbac),
  api('admissionregistration', 'admissionregistration.k8s.io', admissionregistration),
  api('authentication', 'authentication.k8s.io', authentication),
  api('authorization', 'authorization.k8s.io', authorization),
  api('autoscaling', 'autoscaling', autoscaling),
  api('coordination', 'coordination.k8s.io', coordination),
  api('discovery', 'discovery.k8s.io', discovery),
  api('events', 'events.k8s.io', events),
  api('networking', 'networking.k8s.io', networking),
  api('node', 'node.k8s.io', node),
  api('policy', 'policy', policy),
  api('scheduling', 'scheduling.k8s.io', scheduling),
  api('storage', 'storage.k8s.io', storage),
  {
    path: 'apiextensions/v1',
    group: 'apiextensions.k8s.io',
    version: 'v1',
    openApiPrefix: 'io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1',
    text: apiextensions,
  },
];
