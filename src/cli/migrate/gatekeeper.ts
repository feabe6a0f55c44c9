/**
 * Reads the constraints of Gatekeeper's library for PodSecurityPolicy.
 * @see https://open-policy-agent.github.io/gatekeeper-library/website/
 */
import { isObject, type JsonObject, objectMember, objectsIn, stringsIn } from '../../kube/types.ts';
import { DEFAULT_CAPABILITIES } from '../../policy/pod/index.ts';
import type { Mode } from '../../policy/psa/index.ts';
import {
  type Exclusion,
  type ForeignPolicies,
  hasContent,
  isListed,
  type LevelRule,
  lookUp,
  type Remainder,
  type PolicyScope,
  selectsLabels,
  textOr,
} from './policies.ts';

export const GATEKEEPER_GROUP = 'constraints.gatekeeper.sh';

/** Checks that correspond to the constraint templates in the library. */
const TEMPLATES: Readonly<Record<string, readonly string[]>> = {
  K8sPSPPrivilegedContainer: ['privileged'],
  K8sPSPHostNamespace: ['hostNamespaces'],
  K8sPSPHostNetworkingPorts: ['hostPorts', 'hostNamespaces'],
  K8sPSPHostFilesystem: ['hostPathVolumes'],
  K8sPSPVolumeTypes: ['restrictedVolumes'],
  K8sPSPFlexVolumes: ['restrictedVolumes'],
  K8sPSPCapabilities: ['capabilities_baseline', 'capabilities_restricted'],
  K8sPSPAllowPrivilegeEscalationContainer: ['allowPrivilegeEscalation'],
  K8sPSPAllowedUsers: ['runAsNonRoot', 'runAsUser'],
  K8sPSPSeccomp: ['seccompProfile_baseline', 'seccompProfile_restricted'],
  K8sPSPSeccompV2: ['seccompProfile_baseline', 'seccompProfile_restricted'],
  K8sPSPSELinuxV2: ['seLinuxOptions'],
  K8sPSPAppArmor: ['appArmorProfile'],
  K8sPSPAppArmorV2: ['appArmorProfile'],
  K8sPSPProcMount: ['procMount'],
  K8sPSPHostProcess: ['windowsHostProcess'],
  K8sPSPHostProbesLifecycle: ['hostProbesAndHostLifecycle'],
  K8sPSPForbiddenSysctls: ['sysctls'],
};

/**
 * Parameters that allow all values that the baseline level allows. A constraint with these parameters needs no
 * restricted check.
 */
const BASELINE_VALUES: Readonly<Record<string, readonly [parameter: string, values: Iterable<string>]>> = {
  K8sPSPCapabilities: ['allowedCapabilities', DEFAULT_CAPABILITIES],
  K8sPSPSeccompV2: ['allowedProfiles', ['RuntimeDefault', 'Localhost', 'not configured']],
};

/** Returns the checks that correspond to a constraint, or `undefined` if there are none. */
function findChecks(kind: string, parameters: JsonObject): readonly string[] | undefined {
  const checks = lookUp(TEMPLATES, kind);
  const [name, values] = lookUp(BASELINE_VALUES, kind) ?? [];
  if (checks === undefined || name === undefined || hasContent(parameters['requiredDropCapabilities'])) return checks;
  const allowed = stringsIn(parameters[name]);
  const isBaseline = allowed.includes('*') || [...(values ?? [])].every((value) => allowed.includes(value));
  return isBaseline ? checks.filter((check) => check.endsWith('_baseline')) : checks;
}

/** Templates without a counterpart in the Pod Security Standards. */
const SCC_ONLY: readonly string[] = ['K8sPSPReadOnlyRootFilesystem', 'K8sPSPFSGroup'];

const ACTIONS: Readonly<Record<string, readonly Mode[]>> = { deny: ['enforce'], warn: ['warn'], dryrun: ['audit'] };

/** Reads constraints. Objects of other API groups are ignored. */
export function readGatekeeper(objects: readonly JsonObject[]): ForeignPolicies {
  const constraints = objects.filter(({ apiVersion }) => String(apiVersion).startsWith(`${GATEKEEPER_GROUP}/`));
  const results = constraints.map(readConstraint);
  return {
    count: constraints.length,
    rules: results.flatMap(({ rule }) => rule ?? []),
    remainders: results.flatMap(({ remainders }) => remainders),
  };
}

function readConstraint(constraint: JsonObject): { readonly rule?: LevelRule; readonly remainders: Remainder[] } {
  const kind = String(constraint['kind']);
  const source = `${kind}/${String(objectMember(constraint, 'metadata')['name'])}`;
  const none = (reason: string) => ({ remainders: [{ source, reason }] });
  const spec = objectMember(constraint, 'spec');
  const { exemptImages, ...parameters } = objectMember(spec, 'parameters');
  const checks = findChecks(kind, parameters);
  if (SCC_ONLY.includes(kind)) return none('the Pod Security Standards have no such check, but SCCs can enforce it');
  if (checks === undefined) return none('not a Pod Security policy, so keep it in Gatekeeper');
  const match = objectMember(spec, 'match');
  const action = textOr(spec['enforcementAction'], 'deny');
  const modes = lookUp(ACTIONS, action);
  if (modes === undefined) return none(`the enforcement action ${action} has no counterpart`);
  const selectors = Object.keys(match).filter((field) => !MATCH_FIELDS.includes(field) && hasContent(match[field]));
  if (selectors.length > 0) {
    return none(`levels apply to all pods of a namespace, but match has ${selectors.join(' and ')}`);
  }
  const kinds = objectsIn(match['kinds']).flatMap((entry) => stringsIn(entry['kinds']));
  if (kinds.length > 0 && !kinds.some((name) => name === 'Pod' || name === '*')) {
    return none('the constraint does not match pods');
  }
  const images = stringsIn(exemptImages);
  const exclusion: Exclusion = {
    source,
    checks,
    matches: (workload, { container = '' }) =>
      images.some((pattern) => matchesImage(pattern, workload.containers.get(container)?.image)),
  };
  // Empty lists are reported too, because an empty list of allowed capabilities, for example, can be stricter than the
  // check.
  const names = Object.keys(parameters);
  const reason = `the level has its own values, so compare the parameters ${names.join(', ')} with the check ${checks.join(', ')}`;
  return {
    rule: {
      source,
      checks,
      version: 'latest',
      exemptUsers: [],
      isSelective: hasContent(match['namespaces']) || hasContent(match['namespaceSelector']),
      exclusions: images.length === 0 ? [] : [exclusion],
      modes: (scope) => (appliesTo(match, scope) ? modes : []),
    },
    remainders: names.length === 0 ? [] : [{ source, reason }],
  };
}

/** Fields of `match` that have a counterpart. Constraints without `scope` apply to all objects. */
const MATCH_FIELDS: readonly string[] = ['kinds', 'namespaces', 'excludedNamespaces', 'namespaceSelector'];

/** Returns true if a pattern matches an image. A trailing `*` matches any suffix. There are no other wildcards. */
function matchesImage(pattern: string, image: string | undefined): boolean {
  return pattern.endsWith('*') ? image?.startsWith(pattern.slice(0, -1)) === true : image === pattern;
}

function appliesTo({ namespaces, excludedNamespaces, namespaceSelector }: JsonObject, scope: PolicyScope): boolean {
  const patterns = stringsIn(namespaces);
  return (
    (patterns.length === 0 || isListed(patterns, scope)) &&
    !isListed(stringsIn(excludedNamespaces), scope) &&
    (!isObject(namespaceSelector) || selectsLabels(namespaceSelector, scope))
  );
}
