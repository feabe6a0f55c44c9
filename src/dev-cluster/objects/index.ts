/**
 * What the API does with objects of each kind besides storing them: defaults, fields that belong to the server,
 * validation. Pure: knows nothing of storage, requests or admission.
 */
import type { Strategy } from '../types.ts';
import { definitionRules } from './definition.ts';
import { namespaceRules } from './namespace.ts';
import { otherRules } from './others.ts';
import { podRules } from './pod/index.ts';
import { rbacRules } from './rbac.ts';
import { createStrategy, type KindRules } from './strategy.ts';
import { webhookConfigurationRules } from './webhook-configuration.ts';
import { workloadRules } from './workloads.ts';

const kinds: Readonly<Record<string, KindRules>> = {
  '/Namespace': namespaceRules,
  '/Pod': podRules,
  'apiextensions.k8s.io/CustomResourceDefinition': definitionRules,
  ...otherRules,
  ...rbacRules,
  ...webhookConfigurationRules,
  ...workloadRules,
};

/** The strategy of a built-in kind. Kinds without rules of their own lie in namespaces and are stored as they come. */
export function strategyOf(group: string, kind: string): Strategy {
  const key = `${group}/${kind}`;
  return createStrategy((Object.hasOwn(kinds, key) ? kinds[key] : undefined) ?? { namespaced: true });
}
