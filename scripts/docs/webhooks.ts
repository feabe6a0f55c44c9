import { ALL_FEATURES, defaultSettings } from '../../src/install/settings.ts';
import { staticWebhookConfigurations } from '../../src/install/webhooks.ts';
import { WEBHOOK_REGISTRATIONS } from '../../src/server/webhooks/index.ts';
import { CONNECT_PODS } from '../../src/server/webhooks/pods-connect.ts';
import { MUTATE_PODS, VALIDATE_PODS } from '../../src/server/webhooks/pods.ts';
import { WORKLOADS } from '../../src/server/webhooks/workloads.ts';
import { code, formatMarkdownTable } from './markdown.ts';

const HEAD = `# Webhooks

API servers call these webhooks to review pods, workloads, namespaces and other objects. The tables show an installation with all features that enforces Pod Security and SCCs. The leader registers only the webhooks that the
[features and settings](settings.md) need, and sets \`failurePolicy: Fail\` only where they enforce a policy. With the [floor](../how-to/policies.md#floor) and \`failurePolicy: Ignore\`, it
also registers webhooks with the prefix \`floor.\`, which fail open with a timeout of 5 s. [Endpoints](endpoints.md) lists the responses and the limits of reviews. \`npm run docs\` generates this page.
`;

const FUNCTIONS_HEAD = `## Functions

Webhooks with a prefix, such as \`fail-open.${VALIDATE_PODS.name}\`, have the same function in other namespaces.
`;

const AUDIT_HEAD = `## Audit annotations

API servers record these annotations in the audit log. The keys of a webhook with a prefix have the same prefix, such as
\`own-label.${VALIDATE_PODS.name}/enforce-policy\`. [Labels and annotations](labels-and-annotations.md#audit-annotations) describes the values.
`;

const POD_SECURITY_KEYS = ['audit-violations', 'exempt', 'error'];
const SCC_KEYS = ['reason', 'denied', 'too-restrictive-NAME'];

const AUDIT_KEYS = [
  [VALIDATE_PODS, 'Pod Security', ['enforce-policy', ...POD_SECURITY_KEYS, 'exception']],
  [VALIDATE_PODS, 'SCCs', ['chosen', 'reason-validation', 'denied-validation']],
  [VALIDATE_PODS, 'SCCs in report mode', [...SCC_KEYS, 'mode']],
  [MUTATE_PODS, 'SCCs', SCC_KEYS],
  [CONNECT_PODS, 'SCCs', [...SCC_KEYS, 'mode']],
  [WORKLOADS, 'Pod Security', POD_SECURITY_KEYS],
] as const;

type Webhook = NonNullable<ReturnType<typeof staticWebhookConfigurations>[number]['webhooks']>[number];

export function formatWebhookReference(version: string): string {
  const policy = {
    scc: { mode: 'enforce' },
    kubelet: { admission: { certificates: true, nodeWrites: true } },
    olm: { hardening: { mode: 'fill' } },
    defaults: { mode: 'apply' },
    rollout: { phase: 'Enforce' },
  };
  const sections = staticWebhookConfigurations({ ...defaultSettings(version), features: ALL_FEATURES, policy }).map(
    ({ kind, metadata, webhooks = [] }) => [
      `## ${code(metadata.name)}\n`,
      `A ${kind}.\n`,
      formatMarkdownTable(['webhook', 'path', 'requests', 'failure policy', 'timeout'], webhooks.map(formatRow)),
    ],
  );
  return [
    HEAD,
    ...sections.flat(),
    FUNCTIONS_HEAD,
    formatMarkdownTable(
      ['webhook', 'path', 'function'],
      WEBHOOK_REGISTRATIONS.map(({ name, path, description }) => [code(name), code(path), description]),
    ),
    AUDIT_HEAD,
    formatMarkdownTable(
      ['key', 'policy'],
      AUDIT_KEYS.flatMap(([{ name }, policy, keys]) => keys.map((key) => [code(`${name}/${key}`), policy])),
    ),
  ].join('\n');
}

function formatRow({ name, clientConfig, rules = [], failurePolicy = '', timeoutSeconds = 0 }: Webhook): string[] {
  const requests = rules.map(({ operations = [], apiGroups = [], resources = [] }) => {
    const groups = apiGroups.filter((group) => group !== '').map((group) => `.${group}`);
    return `${operations.join(', ')} ${resources.map((resource) => code(`${resource}${groups.join('')}`)).join(', ')}`;
  });
  const path = clientConfig.service?.path?.replace(/\?.*/, '') ?? pathOf(name);
  return [code(name), code(path), requests.join('; '), failurePolicy, `${timeoutSeconds} s`];
}

function pathOf(name: string): string {
  return WEBHOOK_REGISTRATIONS.find((registration) => registration.name === name)?.path ?? '';
}
