import { CONTROLLERS } from '../../src/controllers/index.ts';
import type { Features } from '../../src/controllers/permissions.ts';
import { code, formatMarkdownTable } from './markdown.ts';

const HEAD = `# Controllers

Controllers maintain objects in the cluster, such as certificates, webhook configurations, labels and ranges. Most of them run
only on the leader. To disable controllers, list their names in \`spec.controllers.disabled\` of the [settings](settings.md).
Each controller uses its name as the field manager, and retries failures with exponential backoff. \`npm run docs\` generates
this page.

The leader is the replica that holds the Lease \`portcullis\` in the installation namespace. Another replica acquires the
Lease when the leader stops and releases it, or 15 s after the last renewal. A replica that loses the Lease stops its
controllers but continues to answer reviews. \`--leader-elect=false\` disables leader election.

`;

/** The conditions under which each feature is enabled. */
const REQUIREMENTS: Readonly<Record<keyof Features, string>> = {
  scc: '`spec.scc.mode` is not `off`',
  rollout: '`spec.rollout.phase` is not `Disabled`',
  evaluation: 'the `rollout` feature',
  managedCertificate: 'managed certificates',
  settingsObject: 'no `--config`',
  replicas: 'a live cluster',
  managedWebhooks: '`spec.webhooks.management` is `managed`',
  kubelet: 'the `kubelet` feature',
  kubeletTaint: '`spec.kubelet.taint`',
  olm: 'the `olm` feature',
  podDefaults: '`spec.defaults.mode` is not `off`',
};

const FEATURES = Object.keys(REQUIREMENTS) as readonly (keyof Features)[];
const ALL = Object.fromEntries(FEATURES.map((feature) => [feature, true])) as unknown as Features;

export function formatControllerReference(): string {
  const rows = CONTROLLERS.map(({ name, runsOn, description, disabledWith, isEnabled }) => [
    code(name),
    runsOn === 'leader' ? 'the leader' : 'every replica',
    FEATURES.filter((feature) => !isEnabled({ ...ALL, [feature]: false }))
      .map((feature) => REQUIREMENTS[feature])
      .join(', '),
    `${description}${disabledWith === undefined ? '' : `. Disabled together with ${code(disabledWith)}`}`,
  ]);
  return `${HEAD}\n${formatMarkdownTable(['controller', 'runs on', 'requires', 'function'], rows)}`;
}
