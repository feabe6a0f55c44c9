import { INSTALLATION } from '../../api/names.ts';
import type { Store } from '../../cluster/store.ts';
import { exceptionErrors } from '../../config/exceptions.ts';
import type { Settings } from '../../config/settings.ts';
import { formatFieldErrors, invalidValue } from '../../kube/field-error.ts';
import { dnsSubdomainErrors } from '../../kube/names.ts';
import { typeMeta } from '../../kube/resources.ts';
import { finishSteps } from '../../kube/steps.ts';
import type { Namespace } from '../../kube/types.ts';
import { formatTimestamp } from '../../kube/units.ts';
import { UserError } from '../../kube/user-error.ts';
import { findShadow, isStricter, type PodSecurity } from '../../policy/psa/index.ts';
import { type Policy, splitEntries, suggestEntries } from '../../policy/pss/index.ts';
import { getTemplatePod, type ManagementSettings, managementSettings } from '../../policy/rollout/index.ts';
import { templateContext } from '../../views/evaluation.ts';
import { effectivePodSecurity, namespacePolicies } from '../../views/rollout.ts';
import { defineCommand, EXIT, VERSION } from '../command.ts';
import { findNamespace } from '../inventory/inventory.ts';
import { expectedSettings, findSettings, sccReviewOptions } from '../inventory/settings.ts';
import { parseReference, readWorkload } from '../inventory/workloads.ts';
import { lifetimeMs, nonEmpty, oneOf, option, UsageError } from '../options.ts';
import { printable, printObjects } from '../output/print.ts';
import { addFlags, getClusterFlags } from '../output/shell.ts';

const DETAILS = `
Prints the smallest PodSecurityException that admits the pods of a workload at the level of its namespace, as
YAML that can be reviewed in Git. If a single object cannot list all violations, prints several objects. The
command changes nothing. The pods are evaluated with the fields that SCC admission or the pod defaults set.

The exception applies to all pods of the service account in the namespace, and to every tag of the image. To
restrict it further, specify the digest of the image.

Examples:
  portcullis exception create deployment/gateway -n shop --for 14d --reason "SEC-123, until the CNI supports it"
  portcullis exception create deployment/gateway -f deploy/ -n shop --offline --level restricted --for 14d --reason SEC-123
`;

interface Scope {
  readonly store: Store;
  readonly settings: Settings;
  readonly namespace: Namespace;
}

function getPodSecurity({ store, settings }: Scope): PodSecurity {
  return effectivePodSecurity({ store, namespace: INSTALLATION.namespace, version: VERSION }, settings);
}

const SHARED_ACCOUNT =
  'the exception applies to all pods with the default service account, so give the workload its own service account';

/** Returns the stricter of the policy in force and, during a rollout, the planned policy. */
function strictestPolicy(scope: Scope, management: ManagementSettings): Policy {
  const { store, settings, namespace } = scope;
  const podSecurity = getPodSecurity(scope);
  const { current, planned } = finishSteps(namespacePolicies(namespace, store, { podSecurity, management }));
  const isPlanned = settings.rollout.phase !== 'Disabled' && planned !== undefined;
  return isPlanned && isStricter(planned.level, current.level) ? planned : current;
}

export const command = defineCommand({
  operands: '<type/name>',
  details: DETAILS,
  options: {
    ...sccReviewOptions,
    for: option('DURATION', lifetimeMs, undefined, { help: 'Time until the exception expires, such as 14d or 12h' }),
    reason: option('TEXT', nonEmpty, undefined, { help: 'Reason for the exception, for example a ticket number' }),
    name: option('NAME', nonEmpty, undefined, { help: 'Name of the exception. Default: the name of the workload' }),
    level: option('LEVEL', oneOf(['baseline', 'restricted'] as const), undefined, {
      help: 'Level to evaluate. Default: the enforced level of the namespace or, during a rollout, the planned level if that is stricter',
    }),
    output: option('FORMAT', oneOf(['yaml', 'json'] as const), 'yaml', { short: 'o', help: 'Output format' }),
  },
  async run(values, [resource = ''], io) {
    const { for: lifetime, reason, level } = values;
    if (lifetime === undefined || reason === undefined) throw new UsageError('--for and --reason are required');
    const workload = await readWorkload(parseReference(resource), values, io);
    const { store } = workload.inventory;
    const name = workload.namespace;
    const found = await findSettings({ config: values.config, store });
    const { settings } = found;
    const scope = { store, settings, namespace: findNamespace(store, name) };
    const scc = expectedSettings(found, values['scc-mode']);
    const context = templateContext(scope.namespace, store, { defaults: settings.defaults, scc });
    const { pod } = getTemplatePod(workload.source, context)?.pod ?? {};
    if (pod === undefined) throw new UserError(`${resource} has no pod template`);
    const inForce = strictestPolicy(scope, managementSettings(scc));
    const policy = { ...inForce, level: level ?? inForce.level };
    const emulationVersion = settings.emulationVersion ?? store.emulationVersion;
    const { entries, uncovered } = suggestEntries(pod, { ...policy, emulationVersion });
    if (uncovered.length > 0) throw new UserError(`no exception can cover ${uncovered.join(', ')} of ${resource}`);
    if (entries.length === 0) {
      throw new UserError(`${resource} needs no exception: its pods satisfy the ${policy.level} level`);
    }
    const spec = {
      serviceAccountName: pod.serviceAccountName || 'default',
      allow: entries,
      expiresAt: formatTimestamp(Date.now() + lifetime),
      reason,
    };
    const ownName = values.name ?? workload.name;
    const exceptions = splitEntries(entries).map((allow, index) => ({
      ...typeMeta('PodSecurityException'),
      metadata: { name: index === 0 ? ownName : `${ownName}-${index + 1}`, namespace: name },
      spec: { ...spec, allow },
    }));
    const errors = exceptions.flatMap(({ metadata, ...value }) => [
      ...dnsSubdomainErrors(metadata.name).map((detail) => invalidValue('metadata.name', metadata.name, detail)),
      ...exceptionErrors({ apiVersion: value.apiVersion, value }).map(({ error }) => error),
    ]);
    if (errors.length > 0) throw new UserError(`the exception would be invalid: ${formatFieldErrors(errors)}`);
    printObjects(io, values.output, exceptions);
    const { labels = {} } = scope.namespace.metadata ?? {};
    const shadow = findShadow({ namespace: name, spec }, labels, getPodSecurity(scope).defaults);
    if (spec.serviceAccountName === 'default') io.stderr.write(`warning: ${SHARED_ACCOUNT}\n`);
    // The text ends with a command.
    if (shadow !== undefined) io.stderr.write(`warning: ${printable(addFlags(shadow, getClusterFlags(values)))}\n`);
    return EXIT.passed;
  },
});
