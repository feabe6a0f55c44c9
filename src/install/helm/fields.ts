import { isObject, type JsonObject } from '../../kube/types.ts';
import type { Manifest } from '../index.ts';
import { optional, print, value } from './slots.ts';

/** An object with what the values of the chart say of it. */
export function fieldsOf(manifest: Manifest): JsonObject {
  const { kind, metadata } = manifest;
  const change = Object.hasOwn(CHANGES, kind) ? CHANGES[kind] : undefined;
  if (change) return change(manifest);
  return kind === 'ConfigMap' && metadata.name === 'portcullis-configuration' ? configurationOf(manifest) : manifest;
}

const CHANGES: Readonly<Record<string, (manifest: Manifest) => JsonObject>> = {
  CustomResourceDefinition: withOptionalAnnotations('include "portcullis.crdAnnotations" . | fromYaml'),
  MutatingWebhookConfiguration: webhooksOf,
  PodDisruptionBudget: (manifest) => {
    const spec = memberOf(manifest, 'spec');
    return { ...manifest, spec: { ...spec, maxUnavailable: print('.Values.podDisruptionBudget.maxUnavailable') } };
  },
  ServiceAccount: withOptionalAnnotations('.Values.serviceAccount.annotations'),
  ValidatingWebhookConfiguration: webhooksOf,
};

function withOptionalAnnotations(expression: string): (manifest: Manifest) => JsonObject {
  return (manifest) => ({
    ...manifest,
    metadata: { ...manifest.metadata, annotations: optional(expression) },
  });
}

/** Who may say whom API servers trust depends on who makes the certificate. */
function webhooksOf(manifest: Manifest): JsonObject {
  const webhooks = (manifest as unknown as { readonly webhooks: readonly JsonObject[] }).webhooks;
  return {
    ...manifest,
    metadata: { ...manifest.metadata, annotations: value('(include "portcullis.webhookAnnotations" . | fromYaml)') },
    webhooks: webhooks.map((webhook) =>
      webhook['failurePolicy'] === 'Fail'
        ? { ...webhook, failurePolicy: print('.Values.webhook.failurePolicy') }
        : webhook,
    ),
  };
}

function configurationOf(manifest: Manifest): JsonObject {
  const [file = ''] = Object.keys(memberOf(manifest, 'data'));
  return {
    ...manifest,
    data: { [file]: print('toYaml (set (deepCopy .Values.configuration) "rollout" .Values.rollout) | quote') },
  };
}

function memberOf(manifest: Manifest, name: string): JsonObject {
  const member = (manifest as JsonObject)[name];
  return isObject(member) ? member : {};
}
