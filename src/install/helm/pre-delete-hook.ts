import { printYaml } from '../../config/manifests.ts';
import { metadataIn } from '../metadata.ts';
import { rule } from '../rbac/rule.ts';
import { clusterRole } from '../rbac/roles.ts';
import type { Manifest } from '../types.ts';
import { print, toTemplate, value } from './slots.ts';

const NAME = 'portcullis-pre-delete';
const NAMESPACE = print('.Release.Namespace');

/**
 * Before a release is removed, no API server may ask any more: what is removed first would not be there to answer. The
 * webhooks are switched off as in an emergency, and removed with all the rest.
 */
export function preDeleteHook(): string {
  const [role, binding] = clusterRole(NAME, RULES, NAMESPACE);
  const inNamespace = metadataIn(NAMESPACE, NAME);
  const subjects = [{ kind: 'ServiceAccount', name: NAME, namespace: NAMESPACE }];
  const objects = [
    { apiVersion: 'v1', kind: 'ServiceAccount', ...hook(inNamespace, 0), automountServiceAccountToken: false },
    { ...role, ...hook(role.metadata, 0) },
    { ...binding, ...hook(binding.metadata, 0), subjects },
    { apiVersion: 'batch/v1', kind: 'Job', ...hook(inNamespace, 1), spec: JOB },
  ];
  return `{{- if .Values.webhook.enabled }}\n${toTemplate(printYaml(objects))}{{- end }}\n`;
}

const RULES = [rule(['get', 'list', 'patch'], ['MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration'])];

/** Hooks run by their weights, the lightest first, and are gone when they have succeeded. */
function hook(metadata: Manifest['metadata'], weight: number) {
  return {
    metadata: {
      ...metadata,
      annotations: {
        'helm.sh/hook': 'pre-delete',
        'helm.sh/hook-weight': String(weight),
        'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
      },
    },
  };
}

const JOB = {
  backoffLimit: 3,
  activeDeadlineSeconds: 120,
  template: {
    spec: {
      serviceAccountName: NAME,
      automountServiceAccountToken: true,
      restartPolicy: 'Never',
      priorityClassName: print('.Values.priorityClassName | quote'),
      securityContext: value('.Values.podSecurityContext'),
      containers: [
        {
          name: 'break-glass',
          image: print('include "portcullis.image" . | quote'),
          imagePullPolicy: print('.Values.image.pullPolicy'),
          args: ['break-glass', 'on', '--reason=helm uninstall'],
          resources: value('.Values.resources'),
          securityContext: value('.Values.securityContext'),
        },
      ],
    },
  },
} as const;
