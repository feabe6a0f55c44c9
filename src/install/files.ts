import { chartFiles } from './helm.ts';
import { defaultSettings, manifestsOf } from './index.ts';
import { baseFiles, manifestFile, type Files, overlayFiles } from './kustomize.ts';

export type { Files } from './kustomize.ts';

/** All files of `webhook-config/`. */
export function manifestFiles(version: string): Files {
  return [
    ['install.yaml', manifestFile(manifestsOf(defaultSettings(version)))],
    ...baseFiles(version),
    ...overlayFiles(version),
    ...chartFiles(version).map(([path, text]) => [`helm/portcullis/${path}`, text] as const),
  ];
}
