import { printYaml } from '../../config/manifests.ts';
import { defaultSettings, manifestsOf, type Manifest } from '../index.ts';
import { PROFILES, type Profile } from '../profiles.ts';
import { changes } from './changes.ts';
import { kustomization, manifestFile, type Files, type Kustomization, type KustomizePatch } from './files.ts';

/** For each profile an overlay, and a component by which what it does can be joined with others. */
export function overlayFiles(version: string): Files {
  return Object.keys(PROFILES).flatMap((name) => {
    const component = componentFiles(name as Profile, version);
    const overlay: Kustomization = {
      kind: 'Kustomization',
      resources: ['../../base'],
      ...(component.length === 0 ? {} : { components: [`../../components/${name}`] }),
    };
    return [...component, [`overlays/${name}/kustomization.yaml`, kustomization(overlay)]];
  });
}

/** What turns the base into the profile; nothing for the base itself. */
function componentFiles(profile: Profile, version: string): Files {
  const settings = defaultSettings(version);
  const base = byKey(manifestsOf(settings));
  const wanted = byKey(manifestsOf({ ...settings, ...PROFILES[profile] }));
  const added = [...wanted].filter(([key]) => !base.has(key)).map(([, manifest]) => manifest);
  const patches = [...base].flatMap(([key, manifest]) => patchOf(manifest, wanted.get(key)) ?? []);
  if (added.length === 0 && patches.length === 0) return [];
  const folder = `components/${profile}`;
  return [
    [
      `${folder}/kustomization.yaml`,
      kustomization({
        kind: 'Component',
        ...(added.length === 0 ? {} : { resources: ['resources.yaml'] }),
        ...(patches.length === 0 ? {} : { patches }),
      }),
    ],
    ...(added.length === 0 ? [] : [[`${folder}/resources.yaml`, manifestFile(added)] as const]),
  ];
}

function patchOf(base: Manifest, wanted: Manifest | undefined): KustomizePatch | undefined {
  const { apiVersion, kind, metadata } = base;
  const [group, version] = apiVersion.split('/');
  const target = { ...(version === undefined ? {} : { group: group ?? '' }), kind, name: metadata.name };
  if (!wanted) {
    const removal = { $patch: 'delete', apiVersion, kind, metadata: { name: metadata.name } };
    return { target, patch: printYaml([removal]) };
  }
  const operations = changes(base, wanted);
  return operations.length === 0 ? undefined : { target, patch: printYaml([operations]) };
}

function byKey(manifests: readonly Manifest[]): ReadonlyMap<string, Manifest> {
  return new Map(manifests.map((one) => [`${one.apiVersion} ${one.kind} ${one.metadata.name}`, one]));
}
