import { celList, celString } from '../../../kube/cel.ts';
import { plural, quote } from '../../../kube/text.ts';
import { APP_ARMOR_ANNOTATION_PREFIX, LOST, type PodFields, type SecurityContextFields } from '../../pod/index.ts';
import { bind, type BuildCel, celOwners, celPlural, celQuotedList } from '../cel.ts';
import {
  type Check,
  distinct,
  findAnnotations,
  type Finding,
  findOwners,
  forbiddenValue,
  forbiddenAnnotation,
  formatOwners,
  joinTexts,
  quotedList,
} from '../check.ts';

const FIELD = 'securityContext.appArmorProfile.type';
const ALLOWED_TYPES = ['RuntimeDefault', 'Localhost'];
const ALLOWED_ANNOTATIONS = ['', 'runtime/default'];
const ALLOWED_ANNOTATION_PREFIX = 'localhost/';

/** Returns a CEL expression for the type of the profile, which is absent only if there is no profile. */
const celProfileType = (owner: string): string => `${owner}.?securityContext.?appArmorProfile.?type`;
const cel: BuildCel = (inputs) => {
  const { annotations } = inputs;
  const owners = celOwners(
    'appArmor',
    inputs,
    (owner) => `${celProfileType(owner)}.orValue("Localhost") in ${celList(ALLOWED_TYPES)}`,
  );
  const isSafe = `!key.startsWith(${celString(APP_ARMOR_ANNOTATION_PREFIX)}) || ${annotations}[key] in ${celList(ALLOWED_ANNOTATIONS)} || ${annotations}[key].startsWith(${celString(ALLOWED_ANNOTATION_PREFIX)})`;
  const values = {
    ...owners.values,
    appArmorAnnotations: `${annotations}.filter(key, !(${isSafe})).map(key, key + "=" + strings.quote(${annotations}[key])).sort()`,
    appArmorValues: `${owners.read((owner) => `${owner}.securityContext.appArmorProfile.type`)} + appArmorAnnotations`,
  };
  const text = `"forbidden AppArmor profile" + (size(appArmorValues) == 1 ? " (" : "s (") + (${owners.owners} + (size(appArmorAnnotations) == 0 ? [] : [${celPlural('appArmorAnnotations', 'annotation', 'annotations')}])).join(" and ") + " must not set AppArmor profile type to " + ${celQuotedList('appArmorValues')} + ")"`;
  return { passes: `${owners.passes} && ${annotations}.all(key, ${isSafe})`, text: bind(values, text) };
};

/**
 * The container runtime's AppArmor profile must not be disabled or replaced by an arbitrary profile.
 *
 * Fields   spec.securityContext.appArmorProfile.type
 *          spec.{init,ephemeral,}containers[*].securityContext.appArmorProfile.type
 *          metadata.annotations[container.apparmor.security.beta.kubernetes.io/*]
 * Allowed  RuntimeDefault, Localhost or no profile; in annotations runtime/default, localhost/* or the empty string
 * @see https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline
 */
export const appArmorProfile: Check = {
  id: 'appArmorProfile',
  level: 'baseline',
  why: 'The default AppArmor profile of the container runtime denies mounts and writes to /proc and /sys. Without it, vulnerabilities in the kernel or the runtime are easier to exploit.',
  fix: 'Set securityContext.appArmorProfile.type to RuntimeDefault or Localhost, or remove it and the AppArmor annotations.',
  violation: ['spec.containers[0].securityContext.appArmorProfile', { type: 'Unconfined' }],
  cis: '5.6.3',
  nsa: 'AppArmor profiles',
  repairs: [
    { field: /^(spec\..*appArmorProfile)\.type$/, remove: 'field', note: LOST.appArmor, explicit: true },
    { remove: 'field', note: LOST.appArmor, explicit: true },
  ],
  versions: [{ since: 'v1.0', check: onlySafeProfiles, cel }],
};

function onlySafeProfiles(pod: PodFields): Finding | undefined {
  const owners = findOwners(pod, isUnsafe);
  const annotations = findAnnotations(pod, isUnsafeAnnotation);
  if (owners.length === 0 && annotations.length === 0) return undefined;
  const values = [
    ...distinct(owners.map(profileType)),
    ...distinct(annotations.map(({ key, value }) => `${key}=${quote(value)}`)),
  ];
  const annotationsText = annotations.length === 0 ? '' : plural(annotations.length, 'annotation');
  const names = joinTexts(formatOwners(owners), ' and ', annotationsText);
  return {
    reason: plural(values.length, 'forbidden AppArmor profile'),
    detail: `${names} must not set AppArmor profile type to ${quotedList(values)}`,
    fields: () => [
      ...owners.map((owner) => forbiddenValue(owner, FIELD, profileType(owner))),
      ...annotations.map(forbiddenAnnotation),
    ],
  };
}

function isUnsafe({ appArmorProfile: type }: SecurityContextFields): boolean {
  return type !== undefined && !ALLOWED_TYPES.includes(type);
}

function profileType(owner: SecurityContextFields): string {
  return owner.appArmorProfile ?? '';
}

/** Returns true for an annotation that sets an unsafe profile, even if its container does not exist. */
function isUnsafeAnnotation(key: string, value: string): boolean {
  if (!key.startsWith(APP_ARMOR_ANNOTATION_PREFIX)) return false;
  return !ALLOWED_ANNOTATIONS.includes(value) && !value.startsWith(ALLOWED_ANNOTATION_PREFIX);
}
