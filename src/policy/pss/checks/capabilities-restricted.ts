import type { FieldError } from '../../../kube/field-error.ts';
import { type ContainerFields, correctCapability, LOST, type PodFields } from '../../pod/index.ts';
import { bind, type BuildCel, celNames, violatingNames } from '../cel.ts';
import {
  type Check,
  distinct,
  findContainers,
  type Finding,
  forbiddenValue,
  formatNames,
  joinTexts,
  missing,
} from '../check.ts';
import { addedCapabilitiesCel, findAddedCapabilities } from './capabilities-baseline.ts';

const DROP = 'securityContext.capabilities.drop';
const ALLOWED: ReadonlySet<string> = new Set(['NET_BIND_SERVICE']);
const overrides = ['capabilities_baseline'];

const DROPS_ALL = '"ALL" in c.?securityContext.?capabilities.?drop.orValue([])';
const cel: BuildCel = (inputs) => {
  const added = addedCapabilitiesCel(ALLOWED, 'addedCapabilities', inputs);
  const values = {
    ...added.values,
    keepingContainers: violatingNames(inputs, DROPS_ALL),
    capabilitiesDetails: `(size(keepingContainers) == 0 ? [] : [${celNames('keepingContainers')} + " must set ${DROP}=[\\"ALL\\"]"]) + (size(addedCapabilitiesContainers) == 0 ? [] : [${added.detail}])`,
  };
  return {
    passes: `${inputs.containers}.all(c, ${DROPS_ALL} && ${added.passes})`,
    text: bind(values, '"unrestricted capabilities (" + capabilitiesDetails.join("; ") + ")"'),
  };
};

/**
 * Each container must drop all capabilities. It may add NET_BIND_SERVICE.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.capabilities.drop
 *          spec.{init,ephemeral,}containers[*].securityContext.capabilities.add
 * Allowed  drop includes ALL, and add includes only NET_BIND_SERVICE
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
export const capabilitiesRestricted: Check = {
  id: 'capabilities_restricted',
  level: 'restricted',
  why: 'Most programs do not need any capabilities. The default capabilities of container runtimes, such as CHOWN and NET_RAW, help an attacker in the container and in the network.',
  fix: 'Set securityContext.capabilities.drop to ["ALL"] in each container, and add only NET_BIND_SERVICE.',
  violation: ['spec.containers[0].securityContext.capabilities', { add: ['CHOWN'] }],
  cis: '5.2.8, 5.2.9',
  nsa: 'no insecure capabilities',
  repairs: [
    { field: /\.drop$/, append: 'ALL' },
    { remove: 'values', correct: correctCapability(ALLOWED), note: LOST.capabilities, explicit: true },
  ],
  versions: [
    { since: 'v1.22', check: mustDropAll, cel, overrides },
    { since: 'v1.25', check: mustDropAll, cel, unless: 'windows', overrides },
  ],
};

function mustDropAll(pod: PodFields): Finding | undefined {
  const keeping = findContainers(pod, ({ capabilities }) => !capabilities?.drop.some((name) => name === 'ALL'));
  const added = findAddedCapabilities(pod, ALLOWED);
  if (keeping.length === 0 && added === undefined) return undefined;
  const dropText =
    keeping.length === 0
      ? ''
      : `${formatNames('container', keeping)} must set securityContext.capabilities.drop=["ALL"]`;
  return {
    reason: 'unrestricted capabilities',
    detail: joinTexts(dropText, '; ', added?.detail ?? ''),
    fields: () => [...keeping.map(dropError), ...(added?.fields() ?? [])],
  };
}

function dropError(container: ContainerFields): FieldError {
  const drop = container.capabilities?.drop ?? [];
  return drop.length === 0 ? missing(container, DROP) : forbiddenValue(container, DROP, distinct(drop));
}
