//! `tern image`: what a process is, as a move would carry it, in a file; its pages are not in it.

use clap::{Args as Arguments, Subcommand};
use image::{IMAGE_BYTES_MAX, Image};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The arguments of `tern image`
#[derive(Clone, Debug, Arguments)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Print all that an image holds
    Show {
        /// What `tern image save` wrote; `-` reads standard input
        file: PathBuf,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the image of a process that runs here, without its pages; it stands still for a moment
    Save {
        /// The PID of the process
        pid: i32,
        /// The file to write
        file: PathBuf,
    },
}

/// Runs it; the exit status.
pub fn main(args: &Args) -> u8 {
    let done = match &args.what {
        What::Show { file, json } => show(file, *json),
        What::Save { pid, file } => save(*pid, file),
    };
    match done {
        Ok(text) => {
            print!("{text}");
            0
        }
        Err(why) => {
            eprintln!("tern: {why}");
            1
        }
    }
}

fn show(file: &Path, json: bool) -> Result<String, String> {
    let failed = |e: std::io::Error| format!("reading {}: {e}", file.display());
    let mut bytes = Vec::new();
    // One more than can be an image, so that what is too long is seen.
    let most = IMAGE_BYTES_MAX as u64 + 1;
    if file == Path::new("-") {
        std::io::stdin().take(most).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        std::fs::File::open(file).map_err(failed)?.take(most).read_to_end(&mut bytes).map_err(failed)?;
    }
    let image = Image::decode(&bytes).map_err(|e| format!("{}: {e}", file.display()))?;
    if !json {
        return Ok(image::shown(&image));
    }
    serde_json::to_string_pretty(&in_json(&image)).map(|text| text + "\n").map_err(|e| e.to_string())
}

fn in_json(image: &Image) -> serde_json::Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut value = serde_json::json!({
        "process": image.process, "threads": image.threads, "areas": image.areas, "files": image.files,
        "descriptors": image.descriptors, "objects": image.objects,
    });
    value["process"]["cwd"] = text(&image.process.cwd).into();
    for (n, thread) in image.threads.iter().enumerate() {
        value["threads"][n]["comm"] = text(&thread.comm).into();
    }
    for (n, file) in image.files.iter().enumerate() {
        value["files"][n]["path"] = text(&file.path).into();
    }
    value
}

fn save(pid: i32, file: &Path) -> Result<String, String> {
    let image = home::picture(pid).map_err(|e| format!("process {pid}: {e}"))?;
    let bytes = image.encode().map_err(|e| format!("process {pid}: {e}"))?;
    std::fs::write(file, &bytes).map_err(|e| format!("writing {}: {e}", file.display()))?;
    Ok(format!("process {pid}: {} bytes, without pages\n", bytes.len()))
}
