import assert from 'node:assert/strict';
import { type FieldError, formatFieldError, invalidValue } from '../../../src/kube/field-error.ts';
import type { SecurityContextConstraints } from '../../../src/kube/scc.ts';
import type { JsonObject } from '../../../src/kube/types.ts';
import { SAFE_SYSCTLS } from '../../../src/policy/pod/index.ts';
import {
  decodeScc,
  GROUPS,
  RUN_AS_USER,
  SE_LINUX_CONTEXT,
  seccompProfilesOfContainer,
  seccompProfilesOfPod,
  VOLUME_TYPES,
  writePod,
} from '../../../src/policy/scc/index.ts';
import {
  containerErrors,
  createContainerContext,
  createPodContext,
  generateContainer,
  laxScc,
  podErrors,
} from '../scc.ts';
import { type Area, area } from './cases.ts';

interface Errors {
  readonly errors: readonly string[];
}

interface Construct {
  readonly valid: boolean;
  readonly error?: string;
}

interface CapabilitiesInput extends JsonObject {
  readonly containerCapabilities: JsonObject | null;
}

interface UserInput {
  readonly runAsUser: unknown;
}

interface EffectiveUserInput extends UserInput {
  readonly effectiveRunAsUser: number | null;
  readonly effectiveRunAsNonRoot: boolean | null;
  readonly path: string;
}

interface GroupInput {
  readonly groups: readonly number[] | null;
  readonly path: string;
  readonly field: string;
}

interface SeLinuxInput {
  readonly type: string;
  readonly policySELinuxOptions: unknown;
  readonly podSELinuxOptions: unknown;
  readonly path: string;
}

interface SeccompGenerateInput extends JsonObject {
  readonly podAnnotations: JsonObject;
  readonly podSeccompProfile: unknown;
}

interface PodInput extends JsonObject {
  readonly pod: unknown;
}

interface SccPodInput {
  readonly scc: SecurityContextConstraints;
  readonly pod: unknown;
}

interface SccContainerInput extends SccPodInput {
  readonly containerIndex: number;
}

interface SyncExpect {
  readonly annotations: unknown;
  readonly podSeccompProfile: unknown;
  readonly containerSeccompProfile: unknown;
}

interface SysctlInput extends JsonObject {
  readonly safeSysctls: readonly string[];
  readonly requested: readonly string[];
}

interface SysctlExpect {
  readonly allowed: readonly string[];
  readonly disallowed: readonly string[];
  readonly errorWhenAlone: unknown;
}

interface VolumeExpect {
  readonly fsType: string;
  readonly errorWhenNoneAllowed: string;
  readonly allowedBy: readonly string[];
}

/** Compares the strategies for individual fields. */
export const STRATEGY_AREAS: Readonly<Record<string, Area>> = {
  'capabilities.generate': area(
    ({ containerCapabilities, ...scc }: CapabilitiesInput, expect: { readonly capabilities: unknown }) => {
      const written = generateContainer(laxScc(scc), podWithCapabilities(containerCapabilities), 0);
      assert.deepEqual(written?.['capabilities'] ?? null, expect.capabilities);
    },
  ),
  'capabilities.validate': area(({ containerCapabilities, ...scc }: CapabilitiesInput, expect: Errors) =>
    assert.deepEqual(errorsOfContainer(laxScc(scc), podWithCapabilities(containerCapabilities), 0), expect.errors),
  ),
  'user.construct': area((scc: UserInput, expect: Construct) => {
    const options = decodeScc(scc).fields.runAsUser;
    checkDefect(RUN_AS_USER.get(options.type)?.findDefect(options), expect);
  }),
  'user.generate': area((scc: UserInput, { uid }: { readonly uid: number | null }) => {
    const options = decodeScc(scc).fields.runAsUser;
    assert.equal(RUN_AS_USER.get(options.type)?.generate(options) ?? null, uid);
  }),
  'user.validate': area((input: EffectiveUserInput, { errors }: Errors) => {
    const options = decodeScc({ runAsUser: input.runAsUser }).fields.runAsUser;
    const user = {
      runAsUser: input.effectiveRunAsUser ?? undefined,
      runAsNonRoot: input.effectiveRunAsNonRoot ?? undefined,
    };
    const error = RUN_AS_USER.get(options.type)?.validate(options, user, input.path);
    assert.deepEqual(error ? [formatFieldError(error)] : [], errors);
  }),
  'group.construct': area((fsGroup: unknown, expect: Construct) => {
    const options = decodeScc({ fsGroup }).fields.fsGroup;
    checkDefect(GROUPS.get(options.type)?.findDefect(options), expect);
  }),
  'group.generate': area((fsGroup: unknown, expect: { readonly list: unknown; readonly single: unknown }) => {
    const options = decodeScc({ fsGroup }).fields.fsGroup;
    const single = GROUPS.get(options.type)?.generate(options) ?? null;
    assert.deepEqual({ single, list: single === null ? null : [single] }, expect);
  }),
  'group.validate': area((input: GroupInput, expect: Errors) => {
    const options = decodeScc({ fsGroup: input }).fields.fsGroup;
    const errors: FieldError[] = [];
    GROUPS.get(options.type)?.validate(options, input.groups ?? undefined, (value, detail) => {
      errors.push(invalidValue(`${input.path}.${input.field}`, value, detail));
      return true;
    });
    assert.deepEqual(errors.map(formatFieldError), expect.errors);
  }),
  'selinux.construct': area((seLinuxContext: unknown, expect: Construct) => {
    const options = decodeScc({ seLinuxContext }).fields.seLinuxContext;
    checkDefect(SE_LINUX_CONTEXT.get(options.type)?.findDefect(options), expect);
  }),
  'selinux.generate': area((seLinuxContext: unknown, { seLinuxOptions }: { readonly seLinuxOptions: unknown }) => {
    const options = decodeScc({ seLinuxContext }).fields.seLinuxContext;
    assert.deepEqual(plain(SE_LINUX_CONTEXT.get(options.type)?.generate(options)), seLinuxOptions);
  }),
  'selinux.validate': area((input: SeLinuxInput, expect: Errors) => {
    const optionsWith = (seLinuxOptions: unknown) =>
      decodeScc({ seLinuxContext: { type: input.type, seLinuxOptions } }).fields.seLinuxContext;
    const options = optionsWith(input.policySELinuxOptions);
    const found = optionsWith(input.podSELinuxOptions).seLinuxOptions;
    const errors: FieldError[] = [];
    SE_LINUX_CONTEXT.get(options.type)?.validate(options, found, { path: input.path, errors });
    assert.deepEqual(errors.map(formatFieldError), expect.errors);
  }),
  'seccomp.construct': area(
    (scc: unknown, expect: { readonly allowAny: boolean; readonly allowed: readonly string[] }) => {
      const { allowsAnySeccompProfile: allowAny, seccompProfiles: allowed } = decodeScc(scc).fields;
      assert.deepEqual({ allowAny, allowed }, expect);
    },
  ),
  'seccomp.generate': area(
    ({ podAnnotations, podSeccompProfile, ...scc }: SeccompGenerateInput, expect: { readonly profile: string }) => {
      const spec = { securityContext: { seccompProfile: podSeccompProfile } };
      const context = createPodContext(scc, { metadata: { annotations: podAnnotations }, spec });
      seccompProfilesOfPod.generate?.(context);
      assert.equal(context.podValues.seccompAnnotation, expect.profile);
    },
  ),
  'seccomp.validatePod': area(({ pod, ...scc }: PodInput, { errors }: Errors) =>
    assert.deepEqual(podErrors(createPodContext(laxScc(scc), pod)), errors),
  ),
  'seccomp.validateContainer': area(
    ({ pod, containerIndex, ...scc }: PodInput & { readonly containerIndex: number }, { errors }: Errors) =>
      assert.deepEqual(errorsOfContainer(laxScc(scc), pod, containerIndex), errors),
  ),
  'seccomp.sync': area(({ scc, pod, containerIndex }: SccContainerInput, expect: SyncExpect) => {
    const context = createPodContext(scc, pod);
    seccompProfilesOfPod.generate?.(context);
    const container = createContainerContext(createPodContext(scc, pod), containerIndex);
    seccompProfilesOfContainer.generate?.(container);
    const { metadata } = writePod({ ...context, containerValues: [], errors: [] }, {}) as { metadata: JsonObject };
    assert.deepEqual(metadata['annotations'], expect.annotations);
    assert.deepEqual(plain(context.podValues.seccompProfile), expect.podSeccompProfile);
    assert.deepEqual(plain(container.values.seccompProfile), expect.containerSeccompProfile);
  }),
  'sysctl.validate': area(({ safeSysctls, requested, ...scc }: SysctlInput, expect: SysctlExpect) => {
    const alias = (name: string): string => SAFE_SYSCTLS[safeSysctls.indexOf(name)]?.name ?? name;
    const found = requested.map((name) => {
      const pod = { spec: { securityContext: { sysctls: [{ name: alias(name), value: '1' }] } } };
      return {
        name,
        errors: podErrors(createPodContext(laxScc(scc), pod)).map((error) => error.replace(alias(name), name)),
      };
    });
    const alone = found.flatMap(({ name, errors }) => errors.map((error) => [name, error] as const));
    assert.deepEqual(
      {
        allowed: found.filter(({ errors }) => errors.length === 0).map(({ name }) => name),
        disallowed: found.filter(({ errors }) => errors.length > 0).map(({ name }) => name),
        errorWhenAlone: Object.fromEntries(alone),
      },
      expect,
    );
  }),
  'sysctl.safeList': area(
    (input: { readonly kernelVersion: string | null }, expect: { readonly safeSysctls: readonly string[] }) => {
      const kernel = getNumbers(input.kernelVersion ?? '0.0');
      const safe = SAFE_SYSCTLS.filter((sysctl) => {
        if (!sysctl.inOpenShift) return false;
        const since = getNumbers(sysctl.kernel ?? '0.0');
        return kernel.major > since.major || (kernel.major === since.major && kernel.minor >= since.minor);
      });
      assert.deepEqual(
        safe.map(({ name }) => name),
        expect.safeSysctls,
      );
    },
  ),
  'volumes.types': area(({ volumeField }: { readonly volumeField: string }, expect: VolumeExpect) => {
    const pod = podWithVolume(volumeField);
    const errorsWith = (volumes: readonly string[]): string[] => podErrors(createPodContext(laxScc({ volumes }), pod));
    // The API server may have injected an empty projected volume.
    const allows = (type: string): boolean =>
      errorsWith([type]).length === 0 && !(type === 'secret' && expect.fsType === 'projected');
    assert.deepEqual(errorsWith([]).map(withoutRoot), [expect.errorWhenNoneAllowed]);
    assert.deepEqual([...VOLUME_TYPES, '*'].filter(allows), expect.allowedBy);
  }),
  'volumes.projected': area(checkPodErrors),
  'volumes.allows': area(
    (
      { volumes, fsType }: { readonly volumes: unknown; readonly fsType: string },
      expect: { readonly allowed: boolean },
    ) =>
      assert.equal(
        podErrors(createPodContext(laxScc({ volumes }), podWithVolume(fsType))).length === 0,
        expect.allowed,
      ),
  ),
  'provider.validatePod': area(checkPodErrors),
  'provider.validateContainer': area(({ scc, pod, containerIndex }: SccContainerInput, { errors }: Errors) =>
    assert.deepEqual(errorsOfContainer(scc, pod, containerIndex), errors),
  ),
  'provider.createContainer': area(
    ({ scc, pod, containerIndex }: SccContainerInput, expect: { readonly securityContext: unknown }) =>
      assert.deepEqual(generateContainer(scc, pod, containerIndex) ?? null, expect.securityContext),
  ),
};

function checkPodErrors({ scc, pod }: SccPodInput, { errors }: Errors): void {
  assert.deepEqual(podErrors(createPodContext(scc, pod)).map(withoutRoot), errors);
}

function checkDefect(defect: string | undefined, { valid, error }: Construct): void {
  assert.equal(defect, valid ? undefined : error);
}

function errorsOfContainer(scc: unknown, pod: unknown, index: number): string[] {
  return containerErrors(createContainerContext(createPodContext(scc, pod), index));
}

function podWithCapabilities(capabilities: JsonObject | null): JsonObject {
  return { spec: { containers: [capabilities === null ? {} : { securityContext: { capabilities } }] } };
}

function podWithVolume(source: string): JsonObject {
  return { spec: { volumes: [{ name: 'v', [source]: {} }] } };
}

/** Removes the dot at the start of a message. The messages in the cases do not have it. */
function withoutRoot(error: string): string {
  return error.replace(/^\./, '');
}

function getNumbers(version: string): { readonly major: number; readonly minor: number } {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return { major, minor };
}

function plain(value: object | undefined): unknown {
  return value === undefined ? null : { ...value };
}
