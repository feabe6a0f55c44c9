import { celList } from '../../../kube/cel.ts';
import {
  type ContainerFields,
  correctCapability,
  DEFAULT_CAPABILITIES,
  LOST,
  type PodFields,
} from '../../pod/index.ts';
import { bind, type BuildCel, type CelInputs, celNames, celQuotedList, celSortedSet, violatingNames } from '../cel.ts';
import {
  type Check,
  distinct,
  findContainers,
  type Finding,
  forbiddenValue,
  formatNames,
  quotedList,
} from '../check.ts';

const FIELD = 'securityContext.capabilities.add';

/**
 * Returns the expressions for added capabilities. The values to bind are named `<prefix>Names` and
 * `<prefix>Containers`.
 */
export function addedCapabilitiesCel(allowed: Iterable<string>, prefix: string, { containers }: CelInputs) {
  const added = 'c.?securityContext.?capabilities.?add.orValue([])';
  const isAllowed = `name in ${celList(allowed)}`;
  const passes = `${added}.all(name, ${isAllowed})`;
  return {
    values: {
      [`${prefix}Names`]: celSortedSet(`${containers}.map(c, ${added}.filter(name, !(${isAllowed})))`),
      [`${prefix}Containers`]: violatingNames({ containers }, passes),
    },
    /** CEL bool that reads the container `c`. */
    passes,
    detail: `${celNames(`${prefix}Containers`)} + " must not include " + ${celQuotedList(`${prefix}Names`)} + " in ${FIELD}"`,
  };
}

const cel: BuildCel = (inputs) => {
  const added = addedCapabilitiesCel(DEFAULT_CAPABILITIES, 'nonDefaultCapabilities', inputs);
  return {
    passes: `${inputs.containers}.all(c, ${added.passes})`,
    text: bind(added.values, `"non-default capabilities (" + ${added.detail} + ")"`),
  };
};

/**
 * Only capabilities that container runtimes grant by default may be added.
 *
 * Fields   spec.{init,ephemeral,}containers[*].securityContext.capabilities.add
 * Allowed  the default capabilities
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const capabilitiesBaseline: Check = {
  id: 'capabilities_baseline',
  level: 'baseline',
  why: "Capabilities beyond the container runtime's defaults affect the host. For example, NET_ADMIN can change the network, SYS_ADMIN can mount file systems, and SYS_PTRACE can read other processes.",
  fix: 'Remove capabilities from securityContext.capabilities.add that container runtimes do not grant by default.',
  violation: ['spec.containers[0].securityContext.capabilities.add', ['NET_ADMIN']],
  cis: '5.2.9',
  nsa: 'no insecure capabilities',
  repairs: [
    { remove: 'values', correct: correctCapability(DEFAULT_CAPABILITIES), note: LOST.capabilities, explicit: true },
  ],
  versions: [{ since: 'v1.0', check: onlyDefaultCapabilities, cel }],
};

function onlyDefaultCapabilities(pod: PodFields): Finding | undefined {
  const added = findAddedCapabilities(pod, DEFAULT_CAPABILITIES);
  return added && { reason: 'non-default capabilities', ...added };
}

/** Returns a violation if containers add capabilities that are not allowed. Compares names exactly. */
export function findAddedCapabilities(
  pod: PodFields,
  allowed: ReadonlySet<string>,
): Omit<Finding, 'reason'> | undefined {
  const containers = findContainers(pod, ({ capabilities }) => capabilities?.add.some((name) => !allowed.has(name)));
  if (containers.length === 0) return undefined;
  const forbiddenNames = ({ capabilities }: ContainerFields) =>
    capabilities?.add.filter((name) => !allowed.has(name)) ?? [];
  const names = quotedList(distinct(containers.flatMap(forbiddenNames)));
  return {
    detail: `${formatNames('container', containers)} must not include ${names} in securityContext.capabilities.add`,
    fields: () => containers.map((container) => forbiddenValue(container, FIELD, distinct(forbiddenNames(container)))),
  };
}
