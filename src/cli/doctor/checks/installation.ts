import { INSTALLATION } from '../../../api/names.ts';
import { isPartOfPortcullis } from '../../../api/webhooks.ts';
import { type Manifest, staticWebhookConfigurations } from '../../../install/index.ts';
import { summarizeNames } from '../../../kube/text.ts';
import { deleteObsolete } from '../../installation/obsolete-objects.ts';
import {
  type DoctorCheck,
  type CheckResult,
  evaluateFact,
  type Facts,
  factValue,
  info,
  ok,
  problem,
  warning,
} from '../facts.ts';
import { applyManifests, instruction } from '../fix.ts';

const HOW_TO_INSTALL = instruction('install Portcullis, see portcullis install --help');

/**
 * Returns true if the service account of the replicas has its permissions. They may exist without a Deployment and
 * webhooks.
 */
function hasPermissions({ changedObjects }: Facts): boolean {
  const isBinding = ({ kind, metadata }: Manifest): boolean =>
    kind === 'ClusterRoleBinding' && metadata.name === INSTALLATION.name;
  return 'value' in changedObjects && !changedObjects.value.some(isBinding);
}

/** Returns false if the Deployment, the webhook configurations and the permissions are all missing. */
export function isInstalled(facts: Facts): boolean {
  const { webhookConfigurations: configurations, deployment, settings } = facts;
  const names = new Set(staticWebhookConfigurations(settings).map(({ metadata: { name } }) => name));
  const isRegistered = configurations.some(
    (configuration) => isPartOfPortcullis(configuration) || names.has(configuration.name),
  );
  return isRegistered || !('value' in deployment) || deployment.value !== undefined || hasPermissions(facts);
}

/** Returns true for the development cluster of `serve`, which has webhooks but no replicas. */
export function isDevCluster(facts: Facts): boolean {
  const { server, deployment, certificate } = facts;
  return (
    !hasPermissions(facts) &&
    factValue(server)?.version.endsWith('+portcullis-dev') === true &&
    'value' in deployment &&
    deployment.value === undefined &&
    'value' in certificate &&
    certificate.value.chain === undefined
  );
}

/**
 * Checks that Portcullis is installed with the CRDs of its features, and with the roles and the policy of its service
 * account.
 */
export const installation: DoctorCheck = {
  name: 'installation',
  evaluate(facts) {
    if (!isInstalled(facts)) {
      const message = 'Portcullis is not installed, because no webhook configuration or Deployment was found';
      return [problem(`namespace ${facts.namespace}`, message, { fix: HOW_TO_INSTALL })];
    }
    const message = 'is the development cluster of portcullis serve, without a Deployment, certificates or roles';
    return isDevCluster(facts) ? [info('API server', message)] : checkObjects(facts);
  },
};

const OBJECTS = 'objects of the installation';

/** Impact of a missing or changed policy, role or binding, by its name. */
const IMPACTS: Readonly<Record<string, string>> = {
  'portcullis-service-account': 'a stolen token of the service account can write more objects',
  'portcullis-exceptions': 'users who may write the status of exceptions can approve them',
  'portcullis-grants': 'users who may write bindings can change the end of temporary grants',
  'portcullis-settings': 'the settings can be deleted without confirmation',
  'portcullis-admission-policies-defaults':
    'the leader cannot maintain the policy that defaults pods, so a webhook defaults them while a replica responds',
};

function findImpact({ kind, metadata: { name } }: Manifest): string {
  if (kind === 'CustomResourceDefinition') {
    return 'the features that need it do not work, and enforcement may not take effect';
  }
  const others = kind.startsWith('ValidatingAdmissionPolicy')
    ? ''
    : 'replicas do not become ready, or controllers fail';
  return IMPACTS[name] ?? others;
}

function checkObjects(facts: Facts): readonly CheckResult[] {
  return [
    ...evaluateFact(facts.changedObjects, OBJECTS, (changed) => {
      if (changed.length === 0) return [ok(OBJECTS, 'match the manifests')];
      return Array.from(Map.groupBy(changed, findImpact), ([impact, group]) => {
        const names = summarizeNames(group.map(({ kind, metadata: { name } }) => `${kind} ${name}`));
        return problem(names, 'missing, or different from the manifests', {
          impact,
          fix: applyManifests(facts, 'prerequisites'),
        });
      });
    }),
    ...evaluateFact(facts.obsolete, 'roles', (unused) => {
      if (unused.length === 0) return [];
      const impact = 'the replicas have permissions that they do not need';
      const fix = { commands: [deleteObsolete(facts.namespace, unused)] };
      return [warning('roles', `${unused.join(', ')} remain from previous settings`, { impact, fix })];
    }),
  ];
}
